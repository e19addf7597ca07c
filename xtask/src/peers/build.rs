//! [`Programs`]: builds the programs of `benches/peers/`, each when it is first needed.

use std::{collections::HashMap, path::PathBuf};

use super::{Left, attended, catalog::Program};
use crate::{cargo, root, run};

pub(super) struct Programs {
    target: PathBuf,
    built: HashMap<Program, Left<PathBuf>>,
}

impl Programs {
    pub(super) fn new() -> Result<Self, String> {
        Ok(Self {
            target: attended::target()?.join("peers"),
            built: HashMap::new(),
        })
    }

    /// Returns the executable of a program.
    pub(super) fn get(&mut self, program: Program) -> Left<PathBuf> {
        if let Some(built) = self.built.get(program) {
            return built.clone();
        }
        let built = self.build(program);
        self.built.insert(program, built.clone());
        built
    }

    fn build(&self, program: Program) -> Left<PathBuf> {
        let manifest = root()
            .join("benches/peers")
            .join(program)
            .join("Cargo.toml");
        let mut build = cargo();
        build
            .args(["build", "--quiet", "--release", "--locked"])
            .arg("--manifest-path")
            .arg(manifest)
            .env("CARGO_TARGET_DIR", &self.target);
        run(
            &format!("cargo build of benches/peers/{program}"),
            &mut build,
        )?;
        Ok(self.target.join(format!("release/windlass-peer-{program}")))
    }
}
