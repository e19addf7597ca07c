"""Stores an order and submits the task that writes its invoice, in one SQL transaction.

    windlass worker --store sqlite:shop.db     # in another terminal, first
    python3 inbox.py shop.db o-17              # asks before it commits

The table windlass_inbox exists once the worker has opened the file. A node takes
the row within milliseconds; without a node it waits. SQLite 3.37 or newer.
"""

import json
import sqlite3
import sys

path, order = sys.argv[1:]
shop = sqlite3.connect(path, timeout=5, isolation_level=None)
shop.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)")

shop.execute("BEGIN IMMEDIATE")
shop.execute("INSERT INTO orders VALUES (?)", (order,))
operation = {
    "op": "submit",
    "id": f"invoice-{order}",
    "kind": "exec",
    "props": {"command": "echo", "args": [f"invoice for {order}"]},
}
shop.execute("INSERT INTO windlass_inbox (operation) VALUES (?)", (json.dumps(operation),))

print(f"order {order} and its task are inserted; Enter commits both", flush=True)
sys.stdin.readline()
shop.execute("COMMIT")
print("committed", flush=True)
