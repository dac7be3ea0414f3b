import sys,json,os
sys.path.insert(0,'/tmp/dk/old/plugins/mpsprobe-devkit/src')
import mpsprobe_devkit.testing as t
assert '/tmp/dk/old' in t.__file__
out='/work/h/devkit/plugins/mpsprobe-devkit/src/mpsprobe_devkit/testing/sample_reports'
os.makedirs(out,exist_ok=True)
from mpsprobe_devkit.testing import *
from mpsprobe_devkit.testing.samples import sample_reports
reps=dict(sample_reports()); reps['comparison-of-coverage']=t.sample_coverage_comparison()
import pickle
pickle.dump({k:v.model_dump_json() for k,v in reps.items()},open('/tmp/dk/samples.pickle','wb'))
pickle.dump({'cells':[t.sample_cell().model_dump_json(),t.sample_cell('cpu',6400,3).model_dump_json()],'traces':[t.sample_trace(n).model_dump_json() for n in (1,2,3)]},open('/tmp/dk/cells.pickle','wb'))
total=0
for k,v in reps.items():
    d=json.loads(v.model_dump_json(exclude_unset=True))
    d={'kind':v.kind,'schema_version':v.schema_version,**d}
    if k=='coverage-several':
        continue
    text=json.dumps(d,indent=1,ensure_ascii=False)+'\n'
    total+=len(text)
    from mpsprobe.schemas.report import parse_report
    assert parse_report(text)==v,k
    open(f'{out}/{k}.json','w').write(text)
    print(k,len(text), len(json.dumps(d)))
