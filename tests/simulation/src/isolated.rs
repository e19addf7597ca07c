//! [`run`]: a run in a process of its own. Some random choices of tokio depend on what the process did before, so only the first
//! run of a process repeats its seed.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::run::Report;

/// The longest that a run may take, in seconds of real time. A debug build on a busy machine needs up to 30.
const LONGEST: &str = "240";

/// Runs a seed by the program `windlass-simulate`: with the faults of these numbers alone, if they are given.
pub fn run(program: &Path, seed: u64, faults: Option<&[usize]>, trace: usize) -> Report {
    // A run that never ends fails, and so names its seed.
    let mut command = Command::new("timeout");
    command.arg(LONGEST);
    command.arg(program).args(["--one", &seed.to_string()]);
    command.args(["--trace", &trace.to_string()]);
    if let Some(faults) = faults {
        let numbers: Vec<String> = faults.iter().map(usize::to_string).collect();
        command.args(["--faults", &numbers.join(",")]);
    }
    // Handlers panic on purpose: nobody reads what they say, and a backtrace takes longer than a tenth of a run.
    command.env("RUST_BACKTRACE", "0");
    let done = command.stderr(Stdio::null()).output();
    let text = match done {
        Ok(done) => done.stdout,
        Err(e) => return Report::failed(&format!("{} did not start: {e}", program.display())),
    };
    let last = text
        .rsplit(|byte| *byte == b'\n')
        .find(|line| !line.is_empty());
    let report = last.and_then(|line| serde_json::from_slice(line).ok());
    report
        .unwrap_or_else(|| Report::failed("the process of the run crashed, or did not end in time"))
}
