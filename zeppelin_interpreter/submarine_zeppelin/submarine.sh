#!/bin/sh
# Written by `submarine zeppelin install`: Zeppelin starts Submarine's interpreter by this.
exec @PYTHON@ -m submarine_zeppelin "$@"
