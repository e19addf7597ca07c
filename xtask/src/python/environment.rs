//! Virtual environments below `target/python`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use super::{folder, found::Python, sdk};
use crate::bounded;

/// The longest that the making of an environment may take. It takes 2 seconds.
const MAKE: Duration = Duration::from_secs(120);
/// The longest that packages may take from PyPI.
const INSTALL: Duration = Duration::from_secs(300);
/// Says what an environment has: one that was not completed has no such file.
const CONTENTS: &str = "contents.txt";

/// A virtual environment.
pub(super) struct Environment(PathBuf);

impl Environment {
    /// Makes an environment with the packages of these files of `sdk/python/requirements`, or takes the one that was
    /// made before of the same.
    ///
    /// # Errors
    ///
    /// When it cannot be made, and when the packages cannot be fetched.
    pub(super) fn make(python: &Python, of: &str, requirements: &[&str]) -> Result<Self, String> {
        let environment = Self(folder().join(format!("{of}-{}", python.number())));
        let files = requirements
            .iter()
            .map(|name| sdk().join("requirements").join(name));
        let files: Vec<PathBuf> = files.collect();
        let fault = |e: io::Error| format!("the environment of {of} cannot be made: {e}");
        let contents = contents(python, &files).map_err(fault)?;
        let marker = environment.0.join(CONTENTS);
        if fs::read_to_string(&marker).is_ok_and(|made| made == contents) && environment.works() {
            return Ok(environment);
        }
        environment.make_empty(python, of)?;
        let mut pip = environment.pip();
        for file in &files {
            pip.arg("--requirement").arg(file);
        }
        let what = format!("{}: the packages of {of}", python.name());
        bounded::run(&what, INSTALL, &mut pip)?;
        fs::write(marker, contents).map_err(fault)?;
        Ok(environment)
    }

    /// Makes a fresh environment with these wheels and nothing else.
    ///
    /// # Errors
    ///
    /// When it cannot be made, and when the wheels cannot be installed.
    pub(super) fn of_wheels(python: &Python, of: &str, wheels: &[PathBuf]) -> Result<Self, String> {
        let environment = Self(folder().join(of));
        environment.make_empty(python, of)?;
        let mut pip = environment.pip();
        pip.args(["--no-index", "--no-deps"]).args(wheels);
        let what = format!("{}: pip install of {of}", python.name());
        bounded::run(&what, INSTALL, &mut pip)?;
        Ok(environment)
    }

    fn make_empty(&self, python: &Python, of: &str) -> Result<(), String> {
        let mut make = Command::new(&python.program);
        isolate(&mut make);
        make.args(["-m", "venv", "--clear"]).arg(&self.0);
        let what = format!("{}: an environment for {of}", python.name());
        bounded::run(&what, MAKE, &mut make)
    }

    /// Whether its Python still runs: the one that it was made of may be gone.
    fn works(&self) -> bool {
        let mut python = self.command("python");
        python.arg("--version").stdout(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    }

    fn pip(&self) -> Command {
        let mut pip = self.command("python");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install"]);
        pip.arg("--quiet");
        pip
    }

    /// The path of a program of the environment.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }

    /// A program of the environment, in the folder of the SDK, with its caches below `target`.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        isolate(&mut command);
        command.current_dir(sdk());
        for (variable, cache) in [("RUFF_CACHE_DIR", "ruff"), ("MYPY_CACHE_DIR", "mypy")] {
            command.env(variable, folder().join(cache));
        }
        command.env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1");
        command
    }
}

/// Takes the settings of the user's own environment away.
fn isolate(command: &mut Command) {
    for variable in ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS"] {
        command.env_remove(variable);
    }
}

fn contents(python: &Python, files: &[PathBuf]) -> io::Result<String> {
    let texts = files
        .iter()
        .map(|file: &PathBuf| fs::read_to_string(Path::new(file)));
    let texts: Vec<String> = texts.collect::<io::Result<_>>()?;
    Ok(format!("{}\n{}", python.program.display(), texts.concat()))
}
