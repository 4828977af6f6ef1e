"""Tests of L{smartgo.schema.hatransfer}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.hatransfer import (
    REPORT,
    REPORT_SIZE,
    TICKET,
    TICKET_MARK,
    TICKET_SIZE,
    TRANSFER_HEAD,
    TRANSFER_HEAD_SIZE,
    last_report,
    report_struct,
    ticket_struct,
    transfer_struct,
)


class TransferTests(SynchronousTestCase):
    def test_layout(self) -> None:
        """A report has 8 bytes, a transfer's head 12, as the schemas say."""
        self.assertEqual((REPORT_SIZE, TRANSFER_HEAD_SIZE), (8, 12))
        self.assertEqual(report_struct.pack(1 << 40), REPORT.build({"offset": 1 << 40}))
        self.assertEqual(transfer_struct.pack(1 << 40, 32768).hex(), "000001000000000000008000")
        self.assertEqual(TRANSFER_HEAD.parse(transfer_struct.pack(7, 0)).offset, 7)

    def test_ticket(self) -> None:
        """A ticket has 32 bytes, four times a report's, and read as reports it begins with no offset."""
        word = bytes(range(24))
        ticket = ticket_struct.pack(TICKET_MARK, word)
        self.assertEqual((TICKET_SIZE, ticket), (32, b"\xffsmartgo" + word))
        self.assertEqual(ticket, TICKET.build({"mark": TICKET_MARK, "word": word}))
        self.assertLess(report_struct.unpack_from(ticket)[0], 0)

    def test_last_report(self) -> None:
        """Of what a slave sent, cut anywhere, the last whole report counts."""
        stream = b"".join(map(report_struct.pack, (1, 2, 3)))
        for cut in range(len(stream) + 1):
            whole = cut // 8
            self.assertEqual(last_report(stream[:cut]), (whole or None, whole * 8))
