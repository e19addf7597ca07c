//! Nodes of windlass together with Metafora itself: the Go program of `tests/interop/metafora`, on
//! its own etcd.

use std::{
    env::{self, consts::EXE_SUFFIX},
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use windlass_etcd_cluster::{Cluster, cluster::Setup};

use crate::{cargo, root, run, tools};

/// Why the program cannot be run.
#[derive(Debug, PartialEq, Eq)]
enum Why {
    /// A tool or module is missing: its name, and the next step.
    Missing { what: String, remedy: &'static str },
    /// Something is wrong.
    Failed(String),
}

impl From<String> for Why {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

const NO_GO: &str = "install Go, at least the version in tests/interop/metafora/go.mod";
const NO_MODULE: &str = "set GOPROXY to a module proxy that serves it";

pub(crate) fn interop(args: &[String]) -> Result<(), String> {
    let may_be_left_out = match args {
        [] => false,
        [only] if only == "--if-available" => true,
        _ => {
            let given = args.join(" ");
            return Err(format!(
                "could not run interop with '{given}': its only option is --if-available"
            ));
        }
    };
    match beside_metafora(&root()) {
        Ok(()) => Ok(()),
        Err(Why::Missing { what, .. }) if may_be_left_out => {
            eprintln!("==> interop with Metafora: LEFT OUT: {what}");
            Ok(())
        }
        Err(Why::Missing { what, remedy }) => Err(format!(
            "interop with Metafora: {what}; {remedy} (--if-available leaves it out)"
        )),
        Err(Why::Failed(why)) => Err(why),
    }
}

fn beside_metafora(root: &Path) -> Result<(), Why> {
    let program = copy(root)?;
    // The tools that may be missing come first: the rest takes longer.
    go_is_there(&program)?;
    modules_are_there(&program)?;
    let node = node(root)?;
    let servers = tools::etcds(root)?;
    let server = servers.first().ok_or("no etcd was found".to_owned())?;
    let setup = Setup {
        program: server.clone(),
        ..Setup::of(1)
    };
    let etcd = Cluster::start(setup).map_err(|e| e.to_string())?;
    run(
        &format!("interop with Metafora (etcd: {})", server.display()),
        // The copy's go.sum gets the lines of Metafora, which Go has verified in its own way.
        go(&program)
            .args(["test", "-count=1", "-failfast", "-v", "-vet=all"])
            .args(["-mod=mod", "./..."])
            .env("INTEROP_ETCD", etcd.endpoint(0))
            .env("INTEROP_NODE", node),
    )?;
    Ok(())
}

fn go(program: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(program).env("GOWORK", "off");
    go
}

/// A copy of the program: Go writes into its folder.
fn copy(root: &Path) -> Result<PathBuf, String> {
    let (from, to) = (
        root.join("tests/interop/metafora"),
        root.join("target/interop/metafora"),
    );
    let copied = || {
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(&from)? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(())
    };
    copied().map_err(|e: std::io::Error| {
        format!("{} to {}: copying: {e}", from.display(), to.display())
    })?;
    Ok(to)
}

fn go_is_there(program: &Path) -> Result<(), Why> {
    let missing = |what| Why::Missing {
        what,
        remedy: NO_GO,
    };
    // From 1.21 on Go itself reports that it is too old for a go.mod, or gets a newer one.
    let output = (go(program).arg("version").output())
        .map_err(|e| missing(format!("Go is not there (go: {e})")))?;
    if !output.status.success() {
        return Err(missing(format!("Go does not do: {}", one_line(&output))));
    }
    let has = String::from_utf8_lossy(&output.stdout).into_owned();
    let mods = program.join("go.mod");
    let mods = fs::read_to_string(&mods).map_err(|e| format!("{}: {e}", mods.display()))?;
    let wants = mods.lines().find_map(|line| line.strip_prefix("go "));
    let has = has.split_whitespace().find_map(|w| w.strip_prefix("go1."));
    let wants = wants.and_then(|wants| wants.strip_prefix("1."));
    match (has.and_then(minor), wants.and_then(minor)) {
        (Some(has), Some(wants)) if has < wants => Err(missing(format!(
            "Go 1.{has} is older than the Go 1.{wants} that it needs"
        ))),
        _ => Ok(()),
    }
}

/// The minor version at the beginning: `23` of `23.0`, of `23rc1`.
fn minor(version: &str) -> Option<u32> {
    let end = version.find(|c: char| !c.is_ascii_digit());
    version[..end.unwrap_or(version.len())].parse().ok()
}

fn modules_are_there(program: &Path) -> Result<(), Why> {
    let output = go(program)
        .args(["mod", "download"])
        .output()
        .map_err(|e| format!("go mod download: could not be started: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(match not_served(&said) {
        Some((module, why)) => Why::Missing {
            what: format!("the module proxy does not give {module} ({why})"),
            remedy: NO_MODULE,
        },
        None => Why::Failed(format!("go mod download: {}: {said}", output.status)),
    })
}

/// The first module that could not be fetched and the reason, from the output of `go mod download`;
/// nothing, if it failed for any other reason.
fn not_served(said: &str) -> Option<(&str, String)> {
    // A module was fetched and is wrong.
    let wrong = [
        "checksum mismatch",
        "SECURITY ERROR",
        "missing go.sum entry",
    ];
    if wrong.iter().any(|wrong| said.contains(wrong)) {
        return None;
    }
    let mut lines = said.lines();
    // go: MODULE@VERSION: WHY
    let (module, why) = lines.find_map(|line| {
        let (what, why) = line.strip_prefix("go: ")?.split_once(": ")?;
        let (module, _) = what.split_once('@')?;
        (!module.contains(' ')).then_some((module, why))
    })?;
    let more = lines.take_while(|line| line.starts_with('\t'));
    let why: Vec<&str> = [why].into_iter().chain(more.map(str::trim)).collect();
    Some((module, why.join(": ")))
}

fn one_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Builds our node: the example, with the features of the tests, so that both share one build.
fn node(root: &Path) -> Result<PathBuf, String> {
    run(
        "the example beside_metafora",
        cargo()
            .args(["build", "--workspace", "--all-features"])
            .args(["--example", "beside_metafora"])
            .env("PROTOC", tools::protoc(root)?),
    )?;
    // Next to this program, wherever cargo builds.
    let here = env::current_exe().map_err(|e| format!("the folder of the chores: {e}"))?;
    let name = format!("examples/beside_metafora{EXE_SUFFIX}");
    let node = here.with_file_name(name);
    if !node.is_file() {
        return Err(format!("{} has not been built", node.display()));
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_served_is_reported_with_the_reason() {
        let said = "go: downloading a.example/b v1.0.0\n\
            go: c.example/d@v0.0.0-2026: reading https://proxy.example/c: 403 Forbidden\n\
            \tserver response: not available\n\
            go: e.example/f@v1.0.0: later\n";
        let why = "reading https://proxy.example/c: 403 Forbidden: server response: not available";
        assert_eq!(not_served(said), Some(("c.example/d", why.to_owned())));
    }

    #[test]
    fn what_is_wrong_is_not_missing() {
        for said in [
            "go: c.example/d@v1.0.0: verifying go.mod: checksum mismatch\n\tdownloaded: h1:x\n",
            "go: c.example/d@v1.0.0: missing go.sum entry for go.mod file\n",
            "go: errors parsing go.mod:\ngo.mod:3: unknown directive: x\n",
            "",
        ] {
            assert_eq!(not_served(said), None, "{said}");
        }
    }

    #[test]
    fn versions_of_go_are_read() {
        assert_eq!(minor("23.0"), Some(23));
        assert_eq!(minor("19"), Some(19));
        assert_eq!(minor("27rc1"), Some(27));
        assert_eq!(minor("x"), None);
    }
}
