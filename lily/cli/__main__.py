"""`python -m lily.cli`, the way `lily up` starts its children."""

from lily.cli import main

main()
