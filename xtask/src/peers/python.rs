//! `cargo xtask bench peers python`: workers in Python, measured by the programs of `benches/peers/python/`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::attended;
use crate::{cargo, root, run, tools};

/// The name on the command line, which is also the folder in `benches/peers/`.
pub(super) const NAME: &str = "python";

/// Runs the comparison in `folder`, with the arguments after `python`.
pub(super) fn measure(args: &[String], folder: &Path) -> Result<(), String> {
    let is_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
    let programs = root().join("benches/peers").join(NAME);
    let python = environment(&programs)?;
    let mut bench = Command::new(python);
    bench.arg(programs.join("bench.py"));
    bench.arg("--folder").arg(folder);
    if !is_help && !args.iter().any(|arg| arg.starts_with("--program")) {
        bench.arg("--program").arg(windlass()?);
    }
    // The servers are looked up before the measurement, which takes long.
    if !is_help {
        tools::redis()?;
        tools::postgresql()?;
    }
    run("measurement of the workers in Python", bench.args(args))
}

/// Builds the program that serves windlass.
fn windlass() -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--workspace"]);
    build.args(["--all-features", "--bin", "windlass"]);
    build.env("PROTOC", tools::protoc(&root())?);
    run("cargo build of windlass", &mut build)?;
    Ok(attended::target()?.join("release/windlass"))
}

/// Makes a virtual environment with the pinned versions of the peers, unless it is there. Returns its interpreter.
fn environment(programs: &Path) -> Result<PathBuf, String> {
    let folder = attended::target()?.join("peers").join(NAME);
    let (environment, stamp) = (folder.join("venv"), folder.join("requirements.txt"));
    let python = environment.join("bin/python");
    let required = programs.join("requirements.txt");
    let text = fs::read_to_string(&required)
        .map_err(|e| format!("could not read {}: {e}", required.display()))?;
    if python.is_file() && fs::read_to_string(&stamp).is_ok_and(|made| made == text) {
        return Ok(python);
    }
    tools::python()?;
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&environment);
    run("virtual environment of the peers", &mut make)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    install.arg("--disable-pip-version-check");
    install.arg("--requirement").arg(&required);
    run("installation of the peers from PyPI", &mut install)?;
    fs::write(&stamp, text).map_err(|e| format!("could not write {}: {e}", stamp.display()))?;
    Ok(python)
}
