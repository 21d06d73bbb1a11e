"""The releases of OpenSearch that the tests use, and their artefacts in Maven Central."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

NEWEST = "3.6.0"
NEWEST_CORE = "3.8.0"  # Maven Central has no plugins for vectors and models for this version
VARIABLE = "RESIFT_NODE_VERSION"
Artefact = tuple[str, str, str, str]  # group, name, version, type
_GROUP = "org.opensearch.plugin"
_PLUGINS = ("opensearch-job-scheduler", "opensearch-knn", "opensearch-ml-plugin", "neural-search")


class NodeUnavailable(RuntimeError):
    """No node can be started on this machine. The message says what is missing, and how to fix it."""


@dataclass(frozen=True)
class Module:
    """A module of OpenSearch that is missing in a distribution.

    Attributes:
        name: Name of the module, and of its folder.
        main: Its main class.
        artefact: Name of its jar in Maven Central, or "" if the jar is taken from ``distribution``.
        jars: Further jars.
        extends: Name of the module that it extends.
        permissions: Its permissions for Java's security manager.
        distribution: The archive of another version of OpenSearch that contains the module.
    """

    name: str
    main: str
    artefact: str = ""
    jars: tuple[Artefact, ...] = ()
    extends: str = ""
    permissions: tuple[str, ...] = ()
    distribution: Artefact | None = None


@dataclass(frozen=True)
class Release:
    """A version of OpenSearch, and what a distribution of it consists of.

    Attributes:
        version: The version.
        java: The major versions of Java that it supports.
        plugins: Its plugins. Each plugin comes after the plugins that it requires.
        modules: Modules that are missing in the distribution in Maven Central.
    """

    version: str
    java: range
    plugins: tuple[str, ...] = _PLUGINS
    modules: tuple[Module, ...] = ()

    @property
    def distribution(self) -> Artefact:
        """The archive of OpenSearch itself."""
        return _distribution(self.version)

    @property
    def archives(self) -> list[Artefact]:
        """The archives of the plugins."""
        return [(_GROUP, name, f"{self.version}.0", "zip") for name in self.plugins]

    def jars(self, module: Module) -> Iterator[Artefact]:
        """Yield the jars of a module that are in Maven Central."""
        if module.artefact:
            yield _GROUP, module.artefact, self.version, "jar"
        yield from module.jars

    def artefacts(self) -> list[Artefact]:
        """Return all artefacts of the release: the distribution, plugins and modules."""
        jars = {jar for module in self.modules for jar in self.jars(module)}
        distributions = {module.distribution for module in self.modules if module.distribution}
        return [self.distribution, *self.archives, *sorted(jars | distributions)]


def _distribution(version: str) -> Artefact:
    return "org.opensearch.distribution.integ-test-zip", "opensearch", version, "zip"


def _jars(*coordinates: str) -> tuple[Artefact, ...]:
    return tuple(
        (group, name, version, "jar") for group, name, version in (coordinate.split(":") for coordinate in coordinates)
    )


_LANG_PAINLESS = Module(
    "lang-painless",
    "org.opensearch.painless.PainlessPlugin",
    "lang-painless",
    _jars(
        "org.opensearch.plugin:opensearch-scripting-painless-spi:2.19.1",
        "org.antlr:antlr4-runtime:4.13.1",
        *(f"org.ow2.asm:{name}:9.7" for name in ("asm", "asm-util", "asm-tree", "asm-commons", "asm-analysis")),
    ),
    permissions=('java.lang.RuntimePermission "createClassLoader"', 'java.lang.RuntimePermission "getClassLoader"'),
)
# The only module in the archive of OpenSearch 2.19.1 is the one for HTTP. Maven Central has the other modules, except
# search-pipeline-common. The module of 3.6.0 only calls methods that 2.19.1 has, too.
_MODULES_2_19 = (
    _LANG_PAINLESS,
    Module(
        "analysis-common",
        "org.opensearch.analysis.common.CommonAnalysisPlugin",
        "analysis-common",
        extends="lang-painless",
    ),
    Module(
        "ingest-common",
        "org.opensearch.ingest.common.IngestCommonPlugin",
        "ingest-common",
        _jars(
            "org.opensearch:opensearch-grok:2.19.1",
            "org.opensearch:opensearch-dissect:2.19.1",
            "org.jruby.joni:joni:2.2.1",
            "org.jruby.jcodings:jcodings:1.0.61",
        ),
        extends="lang-painless",
    ),
    Module(
        "lang-mustache",
        "org.opensearch.script.mustache.MustachePlugin",
        "lang-mustache-client",
        _jars("com.github.spullara.mustache.java:compiler:0.9.14"),
        permissions=('java.lang.RuntimePermission "accessDeclaredMembers"',),
    ),
    Module("mapper-extras", "org.opensearch.index.mapper.MapperExtrasPlugin", "mapper-extras-client"),
    Module("parent-join", "org.opensearch.join.ParentJoinPlugin", "parent-join-client"),
    Module("percolator", "org.opensearch.percolator.PercolatorPlugin", "percolator-client"),
    Module("geo", "org.opensearch.geo.GeoModulePlugin", "geo"),
    Module(
        "reindex",
        "org.opensearch.index.reindex.ReindexPlugin",
        "reindex-client",
        _jars(
            "org.opensearch.client:opensearch-rest-client:2.19.1",
            "org.opensearch:opensearch-ssl-config:2.19.1",
            "org.apache.httpcomponents:httpclient:4.5.14",
            "org.apache.httpcomponents:httpcore:4.4.16",
            "org.apache.httpcomponents:httpasyncclient:4.1.5",
            "org.apache.httpcomponents:httpcore-nio:4.4.16",
            "commons-codec:commons-codec:1.16.1",
            "commons-logging:commons-logging:1.2",
        ),
        permissions=('java.net.SocketPermission "*", "connect"', 'java.net.NetPermission "getProxySelector"'),
    ),
    Module(
        "search-pipeline-common",
        "org.opensearch.search.pipeline.common.SearchPipelineCommonModulePlugin",
        extends="lang-painless",
        distribution=_distribution(NEWEST),
    ),
)

# OpenSearch 2 needs Java's security manager, which Java 24 removed. Maven Central has OpenSearch's security plugin only
# for 2.19.1.
_RELEASES = (
    Release(NEWEST, range(21, 100)),
    Release(NEWEST_CORE, range(21, 100), plugins=()),
    Release("2.19.1", range(17, 24), modules=_MODULES_2_19),
    Release("2.19.1", range(17, 24), (*_PLUGINS, "opensearch-security"), _MODULES_2_19),
)


def release(version: str = "", secured: bool = False) -> Release:
    """Return a release.

    Args:
        version: The version, by default that of RESIFT_NODE_VERSION, or else the newest.
        secured: Whether the release must contain the security plugin.

    Raises:
        NodeUnavailable: If there is no such release.
    """
    name = version or os.environ.get(VARIABLE) or NEWEST
    for known_release in _RELEASES:
        if known_release.version == name and ("opensearch-security" in known_release.plugins) == secured:
            return known_release
    known = ", ".join(dict.fromkeys(known_release.version for known_release in _RELEASES))
    raise NodeUnavailable(f"no OpenSearch {name}{' with its security plugin' if secured else ''}: there are {known}")
