"""Tests of L{smartgo.spark.failures}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError, StoreError
from smartgo.spark.failures import JobFailed, cause, job_failed, understood

WORKER = """\
An error occurred while calling o63.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/worker.py", line 1981, in main
    func, profiler = read_command(pickleSer, infile)
  File "/spark/cloudpickle.py", line 649, in subimport
    __import__(name)
zlib.error: Error -3 while decompressing data

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/spark/worker.py", line 7
    raise
ModuleNotFoundError: No module named 'smartgo'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)
Caused by: java.io.EOFException
"""


class FailureTests(SynchronousTestCase):
    """What is told of an error of Spark's."""

    def test_understood(self) -> None:
        """Of what Spark makes of an error of ours, the sentence is told, and its kind decides what it counts as."""
        trace = "Job aborted\nTraceback:\n  File x\nsmartgo.{}: /s/commitlog/0 is damaged at 5\n SQLSTATE: 38000\n at"
        found = understood(trace.format("spark.reader.LogDamaged"))
        self.assertIsInstance(found, StoreError)
        self.assertEqual(str(found), "/s/commitlog/0 is damaged at 5")
        self.assertIsInstance(understood(trace.format("errors.SettingError")), SettingError)
        self.assertIsNone(understood("java.lang.OutOfMemoryError"))

    def test_worker(self) -> None:
        """Of a worker's traceback, the exception at its end is the cause, whatever Java wraps around it."""
        self.assertEqual(
            cause(WORKER), "An error occurred while calling o63.count.: ModuleNotFoundError: No module named 'smartgo'"
        )

    def test_first_line(self) -> None:
        """A traceback that begins in the first line leaves what stands before it."""
        text = (
            '[X] Failed to create it: Traceback (most recent call last):\n  File "a"\nImportError: no b\n SQLSTATE: 1'
        )
        self.assertEqual(cause(text), "[X] Failed to create it: ImportError: no b")

    def test_java(self) -> None:
        """Of exceptions of Java, the innermost cause is told beside the first line; a line alone as it is."""
        text = (
            "[Y] Job aborted\n\tat a.b(C.scala)\nCaused by: a.B: x\n\tat c\nCaused by: java.io.IOException: disk full\n"
        )
        self.assertEqual(cause(text), "[Y] Job aborted: java.io.IOException: disk full")
        self.assertEqual(cause("[Z] Column not found"), "[Z] Column not found")
        self.assertEqual(cause("x\nTraceback (most recent call last):\n  cut off"), "x")

    def test_error(self) -> None:
        """An error of Spark's becomes one of ours: a setting's, a store's, or that Spark failed."""
        self.assertIsInstance(job_failed(Exception("smartgo.errors.SettingError: no path")), SettingError)
        failed = job_failed(Exception("[Z] Column not found\n at"))
        self.assertIsInstance(failed, JobFailed)
        self.assertEqual(str(failed), "Spark failed: [Z] Column not found")
        self.assertEqual(str(job_failed(KeyError())), "Spark failed: KeyError")
