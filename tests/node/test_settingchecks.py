"""The checks of settings: a start refuses what the check of a file refuses, in the same words."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.findings import AllFindings
from smartgo.node import all as everything
from smartgo.node import broker, registry
from smartgo.node.assembly import assemble_ops
from smartgo.node.options import AllOptions, BrokerOptions, FrontOptions, NodeOptions, RegistryOptions, configure
from smartgo.node.process import check_bind, checked, memory_budget
from smartgo.node.settingchecks import make_all, program_checks
from smartgo.node.stalls import StallWatch
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of


class SettingChecksTests(SynchronousTestCase):
    def errors(self, options: NodeOptions, *arguments: str) -> list[str]:
        """All errors of a command line."""
        env = FakeEnvironment()
        options.parseOptions(list(arguments))
        configuration = configure(env, options)
        findings = AllFindings()
        make_all(program_checks(env, configuration, options.tables, options.serves_ops), findings)
        return [str(one) for one in findings.errors]

    def started(self, options: NodeOptions, prepare: Callable[..., object], *arguments: str) -> str:
        """Return the sentence of a refused start."""
        env = FakeEnvironment()
        options.parseOptions(list(arguments))
        configuration = configure(env, options)
        said = StringIO()
        with redirect_stderr(said):
            error = self.assertRaises(SystemExit, checked, options.program, prepare, env, configuration)
        self.assertEqual(error.code, 78)
        return said.getvalue()

    def test_well(self) -> None:
        """Settings by default are fine for every program; an API alone needs a registry."""
        for options in (BrokerOptions(), RegistryOptions(), AllOptions()):
            self.assertEqual(self.errors(options), [], options.program)
        (missing,) = self.errors(FrontOptions())
        self.assertIn("the REST API needs a registry", missing)
        self.assertEqual(self.errors(FrontOptions(), "--registry", "127.0.0.1:9876"), [])

    def test_spans(self) -> None:
        """Spans without the packages of OpenTelemetry are refused, by a check as by a start."""
        with patch.dict(sys.modules, {"smartgo.broker.spans.otelspans": None}):
            flags = ("--set", "otelEndpoint=http://127.0.0.1:4318")
            (error,) = self.errors(BrokerOptions(), *flags)
            said = self.started(BrokerOptions(), broker.prepare, *flags)
        self.assertIn("pip install 'smartgo[otel]'", error)
        self.assertIn(error, said)

    def test_same(self) -> None:
        """What a start refuses first is the first error of the check, word for word."""
        cases: list[tuple[type[NodeOptions], Any, tuple[str, ...]]] = [
            (BrokerOptions, broker.prepare, ("--set", "aclEnable=true")),
            (BrokerOptions, broker.prepare, ("--listen", "0.0.0.0:10911")),
            (BrokerOptions, broker.prepare, ("--set", "haBindAddress=0.0.0.0")),
            (BrokerOptions, broker.prepare, ("--set", "tls.server.certPath=/no", "--set", "tls.server.keyPath=/no")),
            (RegistryOptions, registry.prepare, ("--listen", "0.0.0.0:9876")),
            (AllOptions, everything.prepare, ("--registry-listen", "0.0.0.0:9876", "--set", "aclEnable=true")),
        ]
        for options, prepare, arguments in cases:
            first, *_ = self.errors(options(), *arguments)
            said = self.started(options(), prepare, *arguments)
            self.assertEqual(said, f"{options.program}: {first}\n", arguments)

    def test_every(self) -> None:
        """The check goes on after the first error."""
        found = self.errors(AllOptions(), "--set", "haBindAddress=0.0.0.0", "--set", "aclEnable=true")
        self.assertEqual(len(found), 2)
        self.assertIn("aclEnable=true: there is no access control file: neither /", found[0])
        self.assertIn("the broker's port for slaves would listen on 0.0.0.0", found[1])

    def access_errors(self, rules: str, *arguments: str) -> list[str]:
        """Return the errors of a registry and a broker in one process, with the rules of a file."""
        env = FakeEnvironment()
        env.files.make_directories("/rules")
        env.files.replace("/rules/plain_acl.yml", rules.encode())
        env.files.replace("/rules/key.yml", b"accessKey: some-body\nsecretKey: some-secret\n")
        options = AllOptions()
        options.parseOptions(["--set", "aclEnable=true", "--set", "aclPath=/rules", *arguments])
        configuration = configure(env, options)
        findings = AllFindings()
        make_all(program_checks(env, configuration, options.tables, False), findings)
        return [str(one) for one in findings.errors]

    def test_access_control(self) -> None:
        """With access control all ports may be open; the port for slaves only where it asks for a key (X1, X6)."""
        rules = "accounts: [{accessKey: some-body, secretKey: some-secret, admin: true}]"
        everywhere = ("--listen", "0.0.0.0:10911", "--registry-listen", "0.0.0.0:9876")
        key = ("--set", "accessKey=some-body", "--set", "secretKey=some-secret")
        self.assertEqual(self.access_errors(rules), [])
        self.assertEqual(self.access_errors(rules, *everywhere, *key), [])
        (found,) = self.access_errors(rules, *everywhere)
        self.assertIn("the broker's port for slaves would listen on 0.0.0.0", found)
        self.assertEqual(self.access_errors(rules, "--set", "accessKeyFile=/rules/key.yml"), [])
        served = ("--ops", "0.0.0.0:10913", "--registry", "127.0.0.1:9876")
        (found,) = self.access_errors(rules, *key, *served)
        self.assertIn("the REST API would listen on 0.0.0.0 without TLS", found)
        self.assertEqual(self.access_errors(rules, *key, *served, "--set", "opsAllowInsecure=true"), [])
        said = "aclEnable=true: the key of accessKey has to be an administrator's in the access control files"
        for wrong in ("", rules.replace("true", "false"), rules.replace("some-body", "another")):
            self.assertEqual(self.access_errors(wrong, "--set", "accessKeyFile=/rules/key.yml"), [said])
        other = ("--set", "haAccessKey=for-slaves", "--set", "haSecretKey=some-secret")
        self.assertEqual(self.access_errors(rules, *key, *other), [said.replace("accessKey", "haAccessKey")])
        (found,) = self.access_errors("accounts: {")
        self.assertIn("aclEnable=true: /rules/plain_acl.yml: the access control file is no YAML", found)
        (found,) = self.access_errors(rules, "--set", "accessKeyFile=/rules/no.yml")
        self.assertIn("key file /rules/no.yml", found)

    def test_memory(self) -> None:
        """A memory budget below four frames is an error, in the words of the start."""
        arguments = ("--set", "memoryBudget=17000000")
        (found,) = self.errors(RegistryOptions(), *arguments)
        options = RegistryOptions()
        said = self.started(options, lambda env, one: memory_budget(env, one.limits), *arguments)
        self.assertEqual(said, f"smartgo-registry: {found}\n")

    def test_api(self) -> None:
        """An API that everybody could read is an error where it is served; off, it is none."""
        for options in (BrokerOptions(), AllOptions()):
            (found,) = self.errors(options, "--ops", "0.0.0.0:10913", "--registry", "127.0.0.1:9876")
            self.assertIn("would listen on 0.0.0.0 without any token", found)
        self.assertEqual(self.errors(FrontOptions(), "--ops", "off"), [])
        found, *_ = self.errors(AllOptions(), "--set", "opsTokens=boss")
        self.assertIn("opsTokens: entry 1 is not NAME:SCOPES:HASH", found)

    def test_bound(self) -> None:
        """The sentence about an address is that of the start."""
        (found,) = self.errors(BrokerOptions(), "--listen", "0.0.0.0:10911", "--set", "haBindAddress=127.0.0.1")
        said = self.started(BrokerOptions(), lambda env, one: check_bind("0.0.0.0", False, "the broker"))
        self.assertEqual(said, f"smartgo-broker: {found}\n")

    def test_ops_refused(self) -> None:
        """The assembly of an API refuses with the words of the check."""
        options = FrontOptions()
        options.parseOptions(["--set", "opsTokens=boss", "--registry", "127.0.0.1:9876"])
        env = FakeEnvironment()
        configuration = configure(env, options)
        stalls = StallWatch(env.clock)
        said = StringIO()
        with redirect_stderr(said):
            self.assertRaises(
                SystemExit,
                checked,
                *("smartgo-ops", assemble_ops, env, options, configuration, [], sweeper_of(env.clock), stalls, None),
            )
        again = self.errors(FrontOptions(), "--set", "opsTokens=boss", "--registry", "127.0.0.1:9876")
        self.assertEqual(said.getvalue(), f"smartgo-ops: {again[0]}\n")
