"""
A FastAPI service: orders come by HTTP and are sent as messages; a consumer in the same process adds up the totals.

C{pip install smartgo 'fastapi[standard]'}, start a broker (C{smartgo dev}), then C{fastapi dev orders_service.py}.
"""

import json
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from smartgo.aio import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer, SmartgoError


class Order(BaseModel):
    """An order of a customer."""

    customer: str
    cents: int


class Totals:
    """What each customer ordered; a message that comes twice counts once."""

    def __init__(self):
        self.cents = {}
        self._seen = set()

    async def add(self, messages):
        """Listen for orders."""
        for message in messages:
            order = json.loads(message.body)
            if message.message_id not in self._seen:
                self._seen.add(message.message_id)
                self.cents[order["customer"]] = self.cents.get(order["customer"], 0) + order["cents"]


def make_app(registry, topic="Orders", group="order-totals"):
    """Return the service; its producer and its consumer start and stop with it."""

    @asynccontextmanager
    async def lifespan(app):
        async with Client(registry) as client, Producer(client, "order-service") as producer:
            app.state.producer, app.state.totals = producer, Totals()
            settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
            consumer = PushConsumer(client, group, app.state.totals.add, settings)
            consumer.subscribe(topic)
            async with consumer:
                yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=202)
    async def take(order: Order):
        message = Message(topic=topic, body=order.model_dump_json().encode(), keys=[order.customer])
        try:
            result = await app.state.producer.send(message)
        except SmartgoError as error:
            raise HTTPException(503, f"the order was not taken: {error}") from error
        return {"id": result.message_id}

    @app.get("/totals/{customer}")
    async def total(customer: str):
        return {"cents": app.state.totals.cents.get(customer, 0)}

    return app


app = make_app(os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
