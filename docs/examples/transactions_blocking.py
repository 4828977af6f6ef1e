"""
Send messages in transactions with an SQLite database, in a program that blocks; start a broker first (C{smartgo dev}).

The local transaction runs in the thread that sends, with the connection of that thread. The check runs in another
thread, and opens a connection of its own.
"""

import os
import sqlite3
import sys
import tempfile
from contextlib import closing

from smartgo.sync import Client, Message, TransactionProducer, TransactionState


def work(registry="localhost"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "orders.sqlite")

        def check(half):
            with closing(sqlite3.connect(path)) as own:
                found = own.execute("SELECT 1 FROM orders WHERE transaction_id = ?", (half.message_id,)).fetchone()
            return TransactionState.COMMIT if found else TransactionState.ROLLBACK

        with closing(sqlite3.connect(path)) as database, Client(registry) as client:
            database.execute("CREATE TABLE orders (apples INTEGER CHECK (apples > 0), transaction_id TEXT)")

            def take_order(message, transaction_id):
                try:
                    with database:  # commits, or rolls back if the body raises
                        database.execute("INSERT INTO orders VALUES (?, ?)", (int(message.body), transaction_id))
                except sqlite3.IntegrityError:
                    return TransactionState.ROLLBACK
                return TransactionState.COMMIT

            with TransactionProducer(client, "order-producers", check) as producer:
                for apples in (7, -1):
                    result = producer.send_in_transaction(Message(topic="Orders", body=b"%d" % apples), take_order)
                    print("order of", apples, "apples:", result.state.name)
            print("orders:", database.execute("SELECT count(*) FROM orders").fetchone()[0])


if __name__ == "__main__":
    work(*sys.argv[1:])
