"""Stream a topic from its brokers into Parquet files, up to its end, and print how far the stream is behind."""

import sys

from pyspark.sql.streaming.listener import StreamingQueryListener

from smartgo.spark import session
from smartgo.spark.network.lag import offsets_behind_latest


class Progress(StreamingQueryListener):
    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        behind = offsets_behind_latest(event.progress).get("offsetsBehindLatest")
        print(f"batch {event.progress.batchId}: {event.progress.numInputRows} messages, {behind} behind", flush=True)

    def onQueryTerminated(self, event):
        pass


def stream(registry, topic, folder, most="10000"):
    spark = session()
    spark.streams.addListener(Progress())
    messages = (
        spark.readStream.format("smartgo")
        .options(registry=registry, subscribe=topic, groupId="lake", maxOffsetsPerTrigger=most)
        .load()
    )
    query = (
        messages.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/messages")
    )
    query.awaitTermination()


if __name__ == "__main__":
    stream(*sys.argv[1:])
