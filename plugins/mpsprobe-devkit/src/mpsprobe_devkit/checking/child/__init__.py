"""What runs in a process of its own, with the plugin in it: ``python -m mpsprobe_devkit.checking.child FOLDER``.

It reads ``request.json`` in the folder and appends what it finds to ``events.jsonl``, line by line, so that all of it
is there when the plugin ends the process. What the plugin prints cannot get between: it goes elsewhere.
"""
