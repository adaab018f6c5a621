"""`lily serve`: the API."""

from threading import Event
from typing import TYPE_CHECKING

from lily.cli import configured, options

if TYPE_CHECKING:
    from lily.settings import Settings


def serve(
    home: options.Home = None,
    host: options.Host = None,
    port: options.Port = None,
    database: options.Database = None,
    parent: options.Parent = None,
    listener: options.Listener = None,
) -> None:
    """Run the API alone, in one or several processes (LILY_API_PROCESSES)."""
    settings = configured.settings(home=home, host=host, port=port, database=database)
    if settings.api_processes > 1 and listener is None:
        _several(settings)
    else:
        _one(settings, parent, listener)


def _one(settings: "Settings", parent: int | None, descriptor: int | None) -> None:
    from lily.cli import role
    from lily.cli.listener import adopt, listen

    stop = role.begin(settings, parent)
    sock = adopt(descriptor) if descriptor else listen(settings.host, settings.port)
    core = role.connect(settings, "lily_app", stop)
    try:
        from lily.api.serve import serve as run

        run(core, sock, stop)
    finally:
        core.close()


def _several(settings: "Settings") -> None:
    from lily.cli import programs, role
    from lily.cli.listener import listen, port_of
    from lily.cli.output import Output
    from lily.cli.supervisor import Supervisor
    from lily.settings import child_environment

    hurry = Event()
    stop = role.stop_on_signal(again=hurry.set)
    with listen(settings.host, settings.port) as sock:
        env = child_environment(settings, LILY_PORT=str(port_of(sock)))
        supervisor = Supervisor(Output(settings.home / "logs"))
        names = [
            supervisor.add(program).program.name
            for program in programs.api(settings.api_processes, env, sock)
        ]
        supervisor.watch(stop)
    supervisor.shut_down([names], hurry)
