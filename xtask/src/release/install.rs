//! An environment that has nothing: an empty home, and a PATH in which there is neither cargo nor any other program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{empty, fault};
use crate::{bounded, target};

/// The longest that one command may take. They take less than a second each.
const STEP: Duration = Duration::from_secs(60);
/// The task that is run.
const TASK: &str = "first";

/// A home.
pub(super) struct Environment(PathBuf);

impl Environment {
    /// Makes an empty home of this name.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub(super) fn make(name: &str) -> Result<Self, String> {
        let home = target().join("release-homes").join(name);
        empty(&home)?;
        Ok(Self(home))
    }

    pub(super) fn home(&self) -> &Path {
        &self.0
    }

    /// A program that sees this home, and finds those programs that are in its own folder.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(&self.0);
        command.env("HOME", &self.0);
        command.env("PATH", program.parent().unwrap_or(&self.0));
        command
    }

    /// Runs a command, and returns what it has printed.
    ///
    /// # Errors
    ///
    /// When it fails, or takes longer than a minute; names it.
    fn printed(&self, program: &Path, args: &[&str]) -> Result<String, String> {
        let file = self.0.join("printed");
        let output = fs::File::create(&file).map_err(|e| fault(&file, &e))?;
        let mut command = self.command(program);
        command.args(args).stdout(output);
        bounded::run(&format!("windlass {}", args.join(" ")), STEP, &mut command)?;
        fs::read_to_string(&file).map_err(|e| fault(&file, &e))
    }
}

/// Runs a task to its end with an installed program: submitted by one process, run by another, read by a third.
///
/// # Errors
///
/// When the program has another version, and when the task does not complete or prints something else.
pub(super) fn try_program(
    environment: &Environment,
    program: &Path,
    version: &str,
) -> Result<(), String> {
    let says = format!("windlass {version}\n");
    let printed = environment.printed(program, &["--version"])?;
    if printed != says {
        return Err(format!(
            "the installed program says {printed:?} instead of {says:?}"
        ));
    }
    // The task runs the program too: by its name, which only the PATH of the installation resolves.
    let props = r#"{"command":"windlass","args":["--version"]}"#;
    let submit = ["submit", "exec", "--id", TASK, "--retry", "never"];
    environment.printed(program, &[&submit[..], &["--props", props]].concat())?;
    environment.printed(program, &["worker", "--until-idle"])?;
    let got = environment.printed(program, &["get", TASK, "-o", "json"])?;
    let got: serde_json::Value = serde_json::from_str(&got)
        .map_err(|e| format!("windlass get printed no JSON: {e}: {got}"))?;
    if got["state"] != "completed" {
        return Err(format!("the task did not complete: {got}"));
    }
    let logged = environment.printed(program, &["logs", TASK])?;
    if !logged.contains(says.trim()) {
        return Err(format!("the task printed {logged:?} instead of {says:?}"));
    }
    environment.printed(program, &["doctor"])?;
    eprintln!(
        "==> the installed program ran a task to its end, in an empty environment: {}",
        says.trim()
    );
    Ok(())
}
