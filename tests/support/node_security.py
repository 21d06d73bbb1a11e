"""Create certificates with openssl, and configure OpenSearch's security plugin to use them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CONFIG = """
plugins.security.ssl.transport.pemcert_filepath: node.pem
plugins.security.ssl.transport.pemkey_filepath: node.key
plugins.security.ssl.transport.pemtrustedcas_filepath: ca.pem
plugins.security.ssl.transport.enforce_hostname_verification: false
plugins.security.ssl.http.enabled: true
plugins.security.ssl.http.clientauth_mode: OPTIONAL
plugins.security.ssl.http.pemcert_filepath: node.pem
plugins.security.ssl.http.pemkey_filepath: node.key
plugins.security.ssl.http.pemtrustedcas_filepath: ca.pem
plugins.security.nodes_dn: ["CN=node"]
plugins.security.authcz.admin_dn: ["CN=admin"]
plugins.security.allow_default_init_securityindex: true
plugins.security.restapi.roles_enabled: ["all_access"]
plugins.security.system_indices.enabled: true
plugins.security.system_indices.indices: [".plugins-ml-config", ".plugins-ml-connector", ".plugins-ml-model-group",
  ".plugins-ml-model", ".plugins-ml-task"]
"""
# Users log in with a password, or with a certificate whose CN is the name of the user.
_SECURITY = """
_meta: {type: config, config_version: 2}
config:
  dynamic:
    http: {anonymous_auth_enabled: false}
    authc:
      basic:
        http_enabled: true
        order: 0
        http_authenticator: {type: basic, challenge: false}
        authentication_backend: {type: intern}
      certificate:
        http_enabled: true
        order: 1
        http_authenticator: {type: clientcert, config: {username_attribute: cn}, challenge: false}
        authentication_backend: {type: noop}
"""
_NODE = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True)
class Certificates:
    """A certificate authority in a folder: its certificate ca.pem, and the certificates that it has issued."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Create an authority, and certificates of a node and of the administrator."""
        made = cls(folder)
        made._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=Tests' authority",
                      "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
        made.issue("node", _NODE)
        made.issue("admin")
        return made

    def issue(self, name: str, extension: str = "extendedKeyUsage=clientAuth") -> None:
        """Issue a certificate for a name: NAME.pem, and its private key NAME.key."""
        request = ("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}")
        self._openssl(*request, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (self.folder / f"{name}.ext").write_text(extension + "\n")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                      "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.pem")  # fmt: skip

    def path(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return str(self.folder / name)

    def context(self, client: str = "admin") -> ssl.SSLContext:
        """Return an SSL context that sends the certificate of a client to the node."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path(f"{client}.pem"), self.path(f"{client}.key"))
        return context

    def secure(self, config: Path) -> None:
        """Add the certificates and the settings of the security plugin to a node's configuration folder."""
        for name in ("ca.pem", "node.pem", "node.key"):
            shutil.copy(self.folder / name, config / name)
        with open(config / "opensearch.yml", "a") as settings:
            settings.write(_CONFIG)
        (config / "opensearch-security/config.yml").write_text(_SECURITY)
        # Remove all users, and the rights that the plugin's default configuration gives to every user.
        for name in ("internal_users", "roles_mapping"):
            empty = f"_meta: {{type: {name.replace('_', '')}, config_version: 2}}\n"
            (config / f"opensearch-security/{name}.yml").write_text(empty)

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
