"""A private authority of the Grid Security Infrastructure (GSI) with the certificates of one server and of its clients.

Files below `credentials` in the directory of a service: `certificates/` (X509_CERT_DIR of clients and server), `proxy`
(X509_USER_PROXY of clients: an RFC 3820 proxy with its key), `user.pem`, `user.key`, `host.pem`, `host.key`, `gridmap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from plimsoll.deploy.process import Program
from plimsoll.deploy.running import RunningService
from plimsoll.deploy.servers import Site
from plimsoll.deploy.servers.storage.files import require_openssl
from plimsoll.plan.services.addresses import CREDENTIALS

SUBJECT: Final = "/O=Plimsoll/CN=tester"
"""The subject of the clients' certificate."""
DAYS: Final = 30
"""The validity of all certificates: longer than any experiment."""
MAKE_S: Final = 60.0
_SCRIPT: Final = """\
set -eu
openssl=$1 name=$2 names=$3 account=$4 days=$5 user=$6
umask 077
mkdir certificates
"$openssl" req -x509 -newkey rsa:2048 -nodes -days "$days" -subj '/O=Plimsoll/CN=authority' -keyout ca.key -out ca.pem
hash=$("$openssl" x509 -noout -subject_hash -in ca.pem)
cp ca.pem "certificates/$hash.0"
cat >"certificates/$hash.signing_policy" <<END
access_id_CA X509 '/O=Plimsoll/CN=authority'
pos_rights globus CA:sign
cond_subjects globus '"/O=Plimsoll/*"'
END
request() { "$openssl" req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr"; }
sign() {
  "$openssl" x509 -req -in "$1.csr" -out "$1.pem" -days "$days" -extfile "$1.ext" \\
    -CA "$2.pem" -CAkey "$2.key" -set_serial "$3"
}
echo "subjectAltName=$names" >host.ext
echo 'keyUsage=critical,digitalSignature,keyEncipherment' >user.ext
printf '%s\\n' 'keyUsage=critical,digitalSignature,keyEncipherment' \\
  'proxyCertInfo=critical,language:id-ppl-inheritAll' >proxy.ext
request host "/O=Plimsoll/CN=$name"
sign host ca 1
request user "$user"
sign user ca 2
request proxy "$user/CN=3"
sign proxy user 3
cat proxy.pem proxy.key user.pem >proxy
echo "\\"$user\\" $account" >gridmap
rm ./*.csr ./*.ext ca.key proxy.pem proxy.key
chmod 755 . certificates
chmod 644 ca.pem user.pem gridmap certificates/*
chmod 400 host.key
if [ "$7" != "" ]; then chown "$7" host.key host.pem; fi
"""
"""The key of the authority is removed when all certificates are signed."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The directory with the files."""

    directory: PurePath

    def server_environment(self) -> dict[str, str]:
        """The environment variables of the server."""
        names = {
            "X509_CERT_DIR": "certificates",
            "X509_USER_CERT": "host.pem",
            "X509_USER_KEY": "host.key",
            "GRIDMAP": "gridmap",
        }
        return {variable: str(self.directory / name) for variable, name in names.items()}


def make_credentials(running: RunningService, site: Site) -> Credentials:
    """Makes an authority for the server at `site.address` whose clients are mapped to the account of the server.
    Raises ServiceError."""
    host, account = running.host, site.account
    openssl = require_openssl(running)
    directory = running.directory / CREDENTIALS
    host.make_directory(directory, 0o755)
    owner = f"{account.uid}:{account.gid}" if account.change else ""
    names = f"IP:{site.address},DNS:localhost"
    words: list[str | PurePath] = [openssl, site.address, names, account.name, str(DAYS), SUBJECT, owner]
    host.run_to_end(
        Program(
            f"{running.spec.name} certificates",
            ["sh", "-c", _SCRIPT, "sh", *words],
            running.directory / "certificates.log",
            directory=directory,
        ),
        failure=f"service {running.spec.name}: the certificates could not be made",
        check_interrupt=site.check_interrupt,
        timeout_s=MAKE_S,
    )
    return Credentials(directory)
