POST /v1/tasks/a/commands
{"command":"pause","note":"why"}