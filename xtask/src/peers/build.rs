//! [`Programs`]: builds the programs of `benches/peers/`, each when it is first needed.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    StepResult, attended,
    catalog::{MODULES, Module, Program},
};
use crate::{cargo, root, run, tools};

pub(super) struct Programs {
    target: PathBuf,
    built: HashMap<Program, StepResult<PathBuf>>,
}

impl Programs {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            target: attended::target()?.join("peers"),
            built: HashMap::new(),
        })
    }

    /// Returns the executable of a program.
    pub(super) fn get(&mut self, program: Program) -> StepResult<PathBuf> {
        if let Some(built) = self.built.get(program) {
            return built.clone();
        }
        let built = self.build(program);
        self.built.insert(program, built.clone());
        built
    }

    fn build(&self, program: Program) -> StepResult<PathBuf> {
        let folder = root().join("benches/peers").join(program);
        if folder.join("go.mod").is_file() {
            return self.build_go(program, &folder);
        }
        // Programs of other lock files build the same crates of this repository with other dependencies.
        let target = self.target.join(program);
        let mut build = cargo();
        build
            .args(["build", "--quiet", "--release", "--locked"])
            .arg("--manifest-path")
            .arg(folder.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", &target);
        if program.ends_with("etcd") {
            build.env("PROTOC", tools::protoc(&root())?);
        }
        run(
            &format!("cargo build of benches/peers/{program}"),
            &mut build,
        )?;
        Ok(target.join(format!("release/windlass-peer-{program}")))
    }

    /// Go completes copies of go.mod and go.sum: the lines of a module that a proxy may refuse are in neither.
    fn build_go(&self, program: Program, folder: &Path) -> StepResult<PathBuf> {
        let built = self.target.join("go");
        let copied = |kind: &str| {
            let copy = built.join(format!("{program}.{kind}"));
            fs::create_dir_all(&built)?;
            fs::copy(folder.join(format!("go.{kind}")), &copy)?;
            Ok(copy)
        };
        let mods = copied("sum").and_then(|_| copied("mod"));
        let mods = mods.map_err(|e: std::io::Error| format!("{}: {e}", folder.display()))?;
        let go = || {
            let mut go = Command::new("go");
            go.current_dir(folder).env("GOWORK", "off");
            go
        };
        let module = MODULES.iter().find(|module| module.program == program);
        if let Some((module, source)) = module.and_then(|m| Some((m, source(m)?))) {
            let replace = format!("-replace={}={}", module.path, source.display());
            let mut edit = go();
            edit.args(["mod", "edit", &replace]).arg(&mods);
            run(
                &format!("{} from {}", module.path, source.display()),
                &mut edit,
            )?;
        }
        let executable = built.join(program);
        let mut build = go();
        build.args(["build", "-mod=mod", "-modfile"]).arg(&mods);
        build.arg("-o").arg(&executable).arg(".");
        eprintln!("==> go build of benches/peers/{program}");
        let output = build
            .output()
            .map_err(|e| format!("Go could not be started: {e}; install it"))?;
        if output.status.success() {
            return Ok(executable);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("it could not be built: {}", reason(&said));
        Err(match module {
            Some(module) => format!("{why}; {} names a folder with its source", module.variable),
            None => why,
        })
    }
}

/// The folder of the environment with the source of a module.
fn source(module: &Module) -> Option<PathBuf> {
    env::var_os(module.variable).map(PathBuf::from)
}

/// The output of a build without what it downloads, on one line.
fn reason(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with("go: downloading") && !line.starts_with('#'));
    // The same reason comes again for each file.
    lines.take(2).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_one_line() {
        let said = "go: downloading a.example/b v1.0.0\nmain.go:3:2: c.example/d@v1.0.0: 403 Forbidden\n\
                    \tserver response: not available\n";
        let why = "main.go:3:2: c.example/d@v1.0.0: 403 Forbidden: server response: not available";
        assert_eq!(reason(said), why);
    }
}
