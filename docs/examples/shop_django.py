"""
A Django project in one file: a view sends orders, a management command consumes them.

C{pip install smartgo django}, start a broker (C{smartgo dev}), then C{python shop_django.py runserver} and, in another
terminal, C{python shop_django.py consume_orders}. In a project of your own the parts stand in C{settings.py},
C{views.py} and C{management/commands/consume_orders.py}.
"""

import functools
import json
import os
import sys

import django
from django.conf import settings
from django.core.management import BaseCommand, execute_from_command_line, get_commands
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from smartgo.sync import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer, SmartgoError

if not settings.configured:
    settings.configure(
        SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"),
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        SMARTGO_REGISTRY=os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"),
        SMARTGO_TOPIC="Orders",
    )
    django.setup()


@functools.cache
def producer():
    """Return the producer of this process: made at the first request, so after the server has forked its workers."""
    client = Client(settings.SMARTGO_REGISTRY)
    client.start()
    made = Producer(client, "shop")
    made.start()
    return made


@csrf_exempt
@require_POST
def take_order(request):
    """Send an order; 503 where no broker takes it."""
    order = json.loads(request.body)
    body = json.dumps(order).encode()
    try:
        result = producer().send(Message(topic=settings.SMARTGO_TOPIC, body=body, keys=[order["customer"]]))
    except SmartgoError as error:
        return JsonResponse({"error": str(error)}, status=503)
    return JsonResponse({"id": result.message_id}, status=202)


urlpatterns = [path("orders", take_order)]


class Command(BaseCommand):
    """Print orders as they arrive."""

    def add_arguments(self, parser):
        """Take a number of orders to end after."""
        parser.add_argument("--count", type=int, default=0)

    def handle(self, *args, count, **options):
        """Consume as a member of the group C{shop-orders}; a message counts as done when the next one is asked for."""
        begin = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        with Client(settings.SMARTGO_REGISTRY) as client:
            consumer = PushConsumer(client, "shop-orders", settings=begin)
            consumer.subscribe(settings.SMARTGO_TOPIC)
            with consumer:
                for number, message in enumerate(consumer, 1):
                    order = json.loads(message.body)
                    self.stdout.write(f"{order['customer']} ordered for {order['cents']} cents")
                    if number == count:
                        consumer.acknowledge()
                        break


if __name__ == "__main__":
    get_commands()["consume_orders"] = Command()
    execute_from_command_line(sys.argv)
