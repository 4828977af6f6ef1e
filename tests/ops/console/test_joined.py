"""Joining the console's modules."""

from __future__ import annotations

import subprocess
from shutil import which
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.console.joined import joined

NODE: Final = which("node")


class JoinedTests(SynchronousTestCase):
    """The joined module."""

    def run_joined(self, first: str, **modules: str) -> list[str]:
        """Join modules of the folder C{app}, run them, and return the lines that they wrote."""
        if NODE is None:
            self.skipTest("node is not installed")
        texts = {f"app/{name}.js": text for name, text in modules.items()}
        text = joined(texts, f"app/{first}.js", "app/all.js")
        ran = subprocess.run(
            [NODE, "--input-type=module", "-e", text], capture_output=True, text=True, check=False, timeout=60
        )
        self.assertEqual(ran.stderr, "", text)
        return ran.stdout.splitlines()

    def test_comments(self) -> None:
        """Comments on lines of their own are left out; what only looks like one stays."""
        main = 'import "./b.js";\n// One.\nconst at = "a//b"; // Two.\n  // Three.\n'
        text = joined({"app/main.js": main, "app/b.js": ""}, "app/main.js", "app/all.js")
        self.assertEqual([word in text for word in ("One", "Two", "Three", '"a//b"')], [False, True, False, True])

    def test_forms(self) -> None:
        """Every form of import and export has the same effect as in a browser, and each module runs once."""
        lines = self.run_joined(
            "main",
            main=(
                '// The beginning.\nimport { count, Kind, later as after } from "./named.js";\n'
                'import chosen from "./chosen.js";\nimport "./named.js";\n'
                'import {\n  a,\n  two,\n} from "./again.js";\n'
                "console.log(count, new Kind().name, after(), slow(), chosen(), a, two);\n"
                "function slow() {\n  return 3;\n}\n"
            ),
            named=(
                'console.log("once");\nexport const count = 1;\nexport class Kind {\n  name = "kind";\n}\n'
                "export async function unused() {}\nexport function later() {\n  return 2;\n}\n"
            ),
            chosen='import{a as n}from"./small.js";const t=n;export default function(){return t}',
            small='var n="small",t=2;export{n as a,t as b};',
            again='import { b } from "./small.js";\nexport { a } from "./small.js";\nconst two = b;\nexport { two };\n',
        )
        self.assertEqual(lines, ["once", "1 kind 2 3 small small 2"])

    def test_named_default(self) -> None:
        """A function that is exported by default keeps its name."""
        lines = self.run_joined(
            "main",
            main='import Page from "./page.js";\nconsole.log(Page.name, Page());\n',
            page="export default function Page() {\n  return 5;\n}\n",
        )
        self.assertEqual(lines, ["Page 5"])

    def test_later(self) -> None:
        """A module that is imported by a call runs when the call is made, and its exception is a rejection."""
        lines = self.run_joined(
            "main",
            main=(
                'const load = () => import("./page.js");\nconsole.log("before");\nload().then((found) => {\n'
                '  console.log(found.default);\n  return import("./bad.js");\n'
                "}).catch((error) => console.log(error.message));\n"
            ),
            page='console.log("run");\nconst page = 7;\nexport { page as default };\n',
            bad='throw new Error("broken");\n',
        )
        self.assertEqual(lines, ["before", "run", "7", "broken"])

    def test_outside(self) -> None:
        """A module that is not joined is imported by the browser, with a path relative to the joined module."""
        text = joined({"a/b/x.js": 'import("../big.mjs").then(show);\n'}, "a/b/x.js", "a/all.js")
        self.assertIn('import("../a/big.mjs")', text)

    def test_refused(self) -> None:
        """Modules that cannot be joined correctly are refused: missing modules, circles, other styles."""
        for wanted, modules in (
            ("a.js imports ./b.js, which is not joined", {"a.js": 'import { b } from "./b.js";\n'}),
            ("each other: a.js, b.js", {"a.js": 'import "./b.js";\n', "b.js": 'import "./a.js";\n', "c.js": "x();\n"}),
            ("a.js has an import or export in a form", {"a.js": "export let changing = 1;\n"}),
            ("a.js has an import or export in a form", {"a.js": 'x();\nimport { b } from "./b.js";\n', "b.js": ""}),
            ("a.js has an import or export in a form", {"a.js": 'export * from "./b.js";\n', "b.js": ""}),
        ):
            error = self.assertRaises(ValueError, joined, modules, "a.js", "all.js")
            self.assertIn(wanted, str(error))
