#!/usr/bin/env bash
# Sets up what `make` needs on a bare Debian or macOS machine with Python 3.11 or newer:
#
#   bootstrap.sh venv      .venv with this package and everything that builds and tests it
#   bootstrap.sh java      Java 17+ for Spark; .venv/java-home names it when PATH does not lead to it
#   bootstrap.sh servers   programs of PostgreSQL 15, MariaDB, PgBouncer, Prometheus, systemd and Chromium for the tests (never fails: tests skip)
#
# System packages are installed only with apt as root (or password-less sudo) or with brew; otherwise one
# sentence says what is missing. No service of the distribution is started or left enabled.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "bootstrap: $*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_allowed() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

apt_install() {
    say "installing $*"
    # The package index may be missing (a fresh container) or old, so it is read again after a failure.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 && return
    as_root apt-get update -q >/dev/null || return 1
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

# --- Python ---------------------------------------------------------------------------------------

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    die "Python 3.11 or newer is needed; install it, or name it: make PYTHON=/path/to/python3.12"
}

do_venv() {
    local python
    python=$(find_python)
    if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        # Debian keeps ensurepip in a package of its own.
        if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            apt_allowed || die "$python has no venv module; install python3-venv"
            apt_install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" ||
                die "python3-venv could not be installed"
        fi
        "$python" -m venv .venv
    fi
    say "installing the package and its tools into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    touch .venv/.installed
}

# --- Java -----------------------------------------------------------------------------------------

java_major() { # of the java program given; prints nothing when there is none (macOS has a stub)
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

java_is_enough() {
    local major
    major=$(java_major "$1" || true)
    [ -n "$major" ] && [ "$major" -ge 17 ]
}

find_java_home() { # prints a JAVA_HOME that is not on PATH
    local home
    for home in /usr/lib/jvm/*17* /usr/lib/jvm/*21* /usr/lib/jvm/default-java \
        /opt/homebrew/opt/openjdk@17 /opt/homebrew/opt/openjdk@21 /usr/local/opt/openjdk@17 /usr/local/opt/openjdk@21 \
        "$(/usr/libexec/java_home -v 17+ 2>/dev/null || true)"; do
        if [ -n "$home" ] && [ -x "$home/bin/java" ] && java_is_enough "$home/bin/java"; then
            echo "$home"
            return
        fi
    done
    return 1
}

choose_java() {
    rm -f .venv/java-home
    if [ -n "${JAVA_HOME:-}" ]; then
        java_is_enough "$JAVA_HOME/bin/java" && return
        say "JAVA_HOME ($JAVA_HOME) is not Java 17 or newer; looking for another"
    elif command -v java >/dev/null && java_is_enough java; then
        return
    fi
    find_java_home >.venv/java-home || { rm -f .venv/java-home; return 1; }
}

do_java() {
    mkdir -p .venv
    choose_java && return
    if apt_allowed; then
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
    elif command -v brew >/dev/null; then
        brew install --quiet openjdk@17 || true
    fi
    choose_java || die "Java 17 or newer is needed by Spark; install it (openjdk-17-jre-headless), or set JAVA_HOME"
}

# --- servers and a browser for the tests ----------------------------------------------------------

do_servers() {
    if apt_allowed; then
        if [ ! -x /usr/lib/postgresql/15/bin/postgres ]; then
            # Without a cluster the package has nothing to start.
            as_root mkdir -p /etc/postgresql-common/createcluster.d
            [ -e /etc/postgresql ] ||
                echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.d/subscriber.conf >/dev/null
            apt_install postgresql-15 || say "PostgreSQL 15 could not be installed; its tests will be skipped"
        fi
        if ! [ -x /usr/sbin/mariadbd ]; then
            # The core packages are the programs alone: no service, no data directory.
            apt_install mariadb-server-core mariadb-client-core ||
                say "MariaDB could not be installed; its tests will be skipped"
        fi
        if ! [ -x /usr/sbin/pgbouncer ]; then
            # A mask keeps the package from starting or enabling its service.
            as_root systemctl mask --quiet pgbouncer 2>/dev/null || true
            apt_install pgbouncer || say "PgBouncer could not be installed; its tests will be skipped"
            as_root systemctl unmask --quiet pgbouncer 2>/dev/null || true
        fi
        if ! [ -e "/usr/lib/$(uname -m)-linux-gnu/libtommath.so.1" ]; then
            apt_install libtommath1 || say "libtommath1 could not be installed; the tests with Firebird will be skipped"
        fi
        if ! command -v promtool >/dev/null; then
            as_root systemctl mask --quiet prometheus 2>/dev/null || true
            apt_install prometheus || say "Prometheus could not be installed; its tests will be skipped"
            as_root systemctl unmask --quiet prometheus 2>/dev/null || true
        fi
        if ! [ -d /usr/share/i18n/locales ]; then
            apt_install locales || say "The sources of locales could not be installed; tests of collations need them"
        fi
        if ! command -v systemd-analyze >/dev/null; then
            apt_install systemd || say "systemd could not be installed; the test of its unit will be skipped"
        fi
        if ! command -v chromium >/dev/null; then
            apt_install chromium fonts-dejavu-core || say "Chromium could not be installed; its tests will be skipped"
        fi
    else
        say "apt may not be used here; tests of a server or browser that is not found are skipped"
    fi
    touch .venv/.servers
}

case "${1:-}" in
    venv | java | servers) "do_$1" ;;
    *) die "usage: bootstrap.sh venv | java | servers" ;;
esac
