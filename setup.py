"""Packaging: the package smartgo with its extensions, and the drop-ins that teach twistd its commands."""

import os
import sys
import sysconfig

from setuptools import Extension, find_packages, setup

HERE = os.path.dirname(os.path.abspath(__file__))
CORE = "smartgo/_core"

if not os.path.isdir(os.path.join(HERE, "smartgo", "plugins")):
    sys.exit(
        "setup.py: smartgo/plugins is not a directory: this copy lost its symbolic links (a zip archive does that); "
        "use a git clone, a tar archive or an sdist"
    )

with open(os.path.join(HERE, "README.md"), encoding="utf-8") as readme:
    LONG_DESCRIPTION = readme.read()


def compiled():
    """
    Return the modules to be compiled, and the wheel's tag; none where SMARTGO_PURE=1 or without Cython.

    Where compiling fails, such as for want of a compiler, the installation goes on without them: Python does the same.
    A module is one .pyx and the C files that it calls, which know nothing of Python. There is no limited API, which
    they are for, without CPython's global lock.
    """
    if os.environ.get("SMARTGO_PURE", "0") not in ("", "0"):
        return [], {}
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return [], {}
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write("setup.py: the core is not compiled: Cython is not installed\n")
        return [], {}
    names = ("answers", "appending", "crc32", "header", "indexkeys", "indexput", "logcolumns", "picking", "properties",
             "pullheader", "sendheader", "sha1", "signature")  # fmt: skip
    modules = [
        Extension(
            "smartgo._core.sends",
            [f"{CORE}/sends.pyx", *(f"{CORE}/{name}.c" for name in names)],
            include_dirs=[CORE],
            depends=[
                f"{CORE}/{name}"
                for name in sorted(os.listdir(os.path.join(HERE, CORE)))
                if name.endswith((".h", ".pxi"))
            ],
            define_macros=[("Py_LIMITED_API", "0x030b0000"), ("CYTHON_LIMITED_API", "1")],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden"],
            py_limited_api=True,
        )
    ]
    try:
        modules = cythonize(modules, quiet=True)
    except Exception as error:
        sys.stderr.write(f"setup.py: the core is not compiled: {type(error).__name__}: {error}\n")
        return [], {}
    for module in modules:
        module.optional = True  # cythonize() forgets it
    return modules, {"bdist_wheel": {"py_limited_api": "cp311"}}


MODULES, OPTIONS = compiled()

OTEL = ["opentelemetry-api>=1.30,<2", "opentelemetry-exporter-otlp-proto-http>=1.30,<2", "opentelemetry-sdk>=1.30,<2"]
SPARK = ["numpy", "pandas>=2.2,<3", "plotly>=6", "pyarrow>=18", "pyspark>=4.1,<5"]

setup(
    name="smartgo",
    version="0.1.0",
    description="A message broker in Python on Twisted, compatible with RocketMQ's protocol and store files",
    long_description=LONG_DESCRIPTION,
    long_description_content_type="text/markdown",
    author="The smartgo developers",
    license="Apache-2.0",
    license_files=["LICENSE"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Twisted",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    # The key "" keeps an editable install a plain path to the checkout: twistd looks for drop-ins in directories of
    # sys.path and does not see them through setuptools' import hook.
    package_dir={"": "."},
    packages=[*find_packages(include=["smartgo", "smartgo.*"]), "twisted.plugins"],
    package_data={
        "smartgo": ["py.typed"],
        "smartgo._core": ["*.pyi"],
        "smartgo.ops.console": ["static/*", "static/*/*", "vendor/*"],
    },
    include_package_data=False,
    # An upper bound stands where a newer version broke us once, or may by its own rules: Twisted 26.4 answers ALPN and
    # ended every HTTPS handshake of ours; construct changes its interface between minor versions. What the lower bounds
    # promise is tried by "tox -e lowest"; what CI installs is requirements/locked.txt.
    install_requires=[
        "click>=8.1",
        "construct>=2.10.70,<2.11",
        "klein>=24.8,<27",
        "lark>=1.2.2,<2",
        "lz4>=4.3",
        "msgspec>=0.19,<1",
        "prometheus-client>=0.20",
        "pyyaml>=6",
        "rich>=13.7",
        "service-identity>=24.2",
        "twisted[tls]>=25.5,<27",
        "txaio>=23.1",
        "zope.interface>=6.4",
        "zstandard>=0.22",
    ],
    extras_require={"export": ["pyarrow>=18"], "otel": OTEL, "spark": SPARK, "speed": ["numpy"]},
    entry_points={
        "console_scripts": ["smartgo = smartgo.cli.main:main", "smartgo-spark = smartgo.spark.job:main"],
        "pytest11": ["smartgo = smartgo.testing.pytestplugin"],
    },
    ext_modules=MODULES,
    options=OPTIONS,
    zip_safe=False,
)
