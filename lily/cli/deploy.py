"""`lily deploy render`: values for the Helm chart, or all manifests, for one tenant."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Literal

import typer

from lily.cli.failures import USAGE, Failure

app = typer.Typer(help="Render what a cluster needs to run Lily.", no_args_is_help=True)

Mode = Literal["pooled", "dedicated", "isolated"]
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
CHART = Path("deploy/helm/lily")
KUBERNETES = "1.31.0"

SHARED = """\
# The installation that tenant {tenant} shares with others ({mode}).
#   helm upgrade --install lily deploy/helm/lily --namespace lily --create-namespace -f THIS
#   lily tenant create {tenant}{database}
tenancy: {{ mode: {mode} }}
image: {{ repository: {image} }}
secret: {{ name: lily }}
publicUrl: https://{host}
ingress: {{ enabled: true, host: {host}, tlsSecret: lily-tls }}
"""
ISOLATED = """\
# An installation for tenant {tenant} alone: its own namespace, database, keys, lake and address.
#   kubectl create namespace lily-{tenant}
#   openssl rand -base64 32 > secret.key
#   kubectl create secret generic lily-{tenant} --namespace lily-{tenant} \\
#     --from-literal=database=postgresql://… --from-file=secret.key --from-literal=admin-password=…
#   helm upgrade --install lily-{tenant} deploy/helm/lily --namespace lily-{tenant} -f THIS
tenancy: {{ mode: isolated, tenant: {tenant} }}
image: {{ repository: {image} }}
secret: {{ name: lily-{tenant} }}
publicUrl: https://{tenant}.{host}
lake: s3://lily-{tenant}/lake
ingress: {{ enabled: true, host: {tenant}.{host}, tlsSecret: lily-{tenant}-tls }}
networkPolicy:
  clients:
    - namespaceSelector: {{ matchLabels: {{ kubernetes.io/metadata.name: ingress }} }}
"""


@app.callback()
def deploy() -> None:
    """Render what a cluster needs to run Lily."""


@app.command()
def render(
    tenant: Annotated[str, typer.Option(help="Whose installation; small letters, digits, dashes.")],
    mode: Annotated[
        Mode,
        typer.Option(
            help="`pooled` shares everything, `dedicated` has its own database, `isolated` its own"
            " installation."
        ),
    ] = "pooled",
    host: Annotated[str, typer.Option(help="Name under which it is reached.")] = "lily.example.com",
    image: Annotated[str, typer.Option(help="Where the image is.")] = "lily",
    manifests: Annotated[
        bool, typer.Option("--manifests", help="All manifests instead of values; needs helm.")
    ] = False,
    chart: Annotated[Path, typer.Option(help="The chart, for --manifests.")] = CHART,
    to: Annotated[Path | None, typer.Option(help="File to write; else the terminal.")] = None,
) -> None:
    """Write the values file of a tenant's installation, or every manifest of it."""
    text = values(tenant, mode, host, image)
    if manifests:
        text = _rendered(text, f"lily-{tenant}" if mode == "isolated" else "lily", chart)
    if to is None:
        typer.echo(text, nl=False)
    else:
        to.write_text(text)


def values(tenant: str, mode: Mode, host: str, image: str) -> str:
    """Values for the chart, and as comments the commands that go with them."""
    if not NAME.fullmatch(tenant):
        raise Failure(f"{tenant!r} cannot name an installation: a-z, 0-9 and - only.", USAGE)
    for given in (host, image):
        if not re.fullmatch(r"[\w./:-]+", given):
            raise Failure(f"{given!r} cannot be a host or an image.", USAGE)
    database = " --database postgresql://…" if mode == "dedicated" else ""
    form = ISOLATED if mode == "isolated" else SHARED
    return form.format(tenant=tenant, mode=mode, host=host, image=image, database=database)


def _rendered(text: str, release: str, chart: Path) -> str:
    helm = shutil.which("helm")
    if helm is None:
        raise Failure("There is no helm; install it, or render values without --manifests.")
    line = [helm, "template", release, str(chart), "--namespace", release, "-f", "-"]
    done = subprocess.run(
        [*line, "--kube-version", KUBERNETES], input=text, capture_output=True, text=True
    )
    if done.returncode:
        raise Failure(f"helm refuses: {done.stderr.strip()}")
    return done.stdout
