"""
Send messages in transactions with an SQLite database; start a broker first (C{smartgo dev}).

An order and its message exist both, or neither of them. The id of the transaction is stored with the order, so that the
check finds out whether the order exists.
"""

import sqlite3
import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Client, Message, RealEnvironment, TransactionProducer, TransactionState


async def work(reactor, registry="127.0.0.1:9876"):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (apples INTEGER CHECK (apples > 0), transaction_id TEXT)")

    def take_order(message, transaction_id):
        try:
            with database:  # commits, or rolls back if the body raises
                database.execute("INSERT INTO orders VALUES (?, ?)", (int(message.body), transaction_id))
        except sqlite3.IntegrityError:
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT

    def check(half):
        found = database.execute("SELECT 1 FROM orders WHERE transaction_id = ?", (half.message_id,)).fetchone()
        return TransactionState.COMMIT if found else TransactionState.ROLLBACK

    client = Client(RealEnvironment(reactor), registry)
    producer = TransactionProducer(client, "order-producers", check)
    await producer.start()
    for apples in (7, -1):
        result = await producer.send_in_transaction(Message(topic="Orders", body=b"%d" % apples), take_order)
        print("order of", apples, "apples:", result.state.name)
    print("orders:", database.execute("SELECT count(*) FROM orders").fetchone()[0])
    await client.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
