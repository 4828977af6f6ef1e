"""smartgo's extensions: any C{smartgo/plugins} directory on the path adds to this package."""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
