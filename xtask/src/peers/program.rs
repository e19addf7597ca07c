//! Runs one job of a program, and reads its figures.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::StepResult;

/// The parameters of a job (`benches/peers/README.md`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) dir: &'a Path,
    /// The URL of a namespace of a server.
    pub(super) store: Option<&'a str>,
    pub(super) setting: &'a str,
    pub(super) count: usize,
    pub(super) slots: usize,
    pub(super) limit: u64,
}

/// Bytes of the payload of a task.
const BYTES: usize = 300;

impl Job<'_> {
    /// The arguments of the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            self.name.to_owned(),
            format!("dir={}", self.dir.display()),
            format!("setting={}", self.setting),
            format!("count={}", self.count),
            format!("slots={}", self.slots),
            format!("bytes={BYTES}"),
            format!("limit={}", self.limit),
        ];
        arguments.extend(self.store.map(|store| format!("store={store}")));
        arguments
    }
}

/// Bytes that a worker uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Memory {
    /// The resident set of its process.
    pub(super) resident: f64,
    pub(super) files: f64,
}

/// What a job measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    pub(super) done: usize,
    pub(super) seconds: f64,
    pub(super) processor_seconds: f64,
    /// The time of a task in milliseconds: median, and the 99th of a hundred.
    pub(super) percentiles: Option<[f64; 2]>,
    /// Of `sleepers`.
    pub(super) memory: Option<Memory>,
    /// What was read back from the store, by name.
    pub(super) facts: BTreeMap<String, String>,
}

impl Figures {
    /// Reads the last line of the output.
    pub(super) fn parse(output: &str) -> StepResult<Self> {
        let line = output.lines().last().unwrap_or_default();
        let wrong = |what: &str| format!("it printed no {what}: {line}");
        let value: Value = serde_json::from_str(line).map_err(|_| wrong("figures"))?;
        let number = |name: &str| value[name].as_f64().ok_or_else(|| wrong(name));
        let facts = value["facts"].as_object().ok_or_else(|| wrong("facts"))?;
        Ok(Self {
            done: number("done")? as usize,
            seconds: number("seconds")?,
            processor_seconds: number("processor_seconds")?,
            percentiles: match (value["p50_ms"].as_f64(), value["p99_ms"].as_f64()) {
                (Some(p50), Some(p99)) => Some([p50, p99]),
                _ => None,
            },
            memory: match (
                value["resident_bytes"].as_f64(),
                value["file_bytes"].as_f64(),
            ) {
                (Some(resident), Some(files)) => Some(Memory { resident, files }),
                _ => None,
            },
            facts: facts
                .iter()
                .map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default().to_owned()))
                .collect(),
        })
    }

    pub(super) fn per_second(&self) -> f64 {
        self.done as f64 / self.seconds
    }

    /// Microseconds of processor time for each task.
    pub(super) fn micros(&self) -> f64 {
        self.processor_seconds * 1e6 / self.done as f64
    }
}

/// How much longer than its limit a job may take: to open its store, to wait for the ends of tasks, to end.
const GRACE: Duration = Duration::from_secs(120);

/// Runs a command that ends with a line of figures. One that takes too long is killed.
pub(super) fn figures(command: &mut Command, limit: u64) -> StepResult<Figures> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| {
            format!(
                "{} could not be started: {e}",
                command.get_program().display()
            )
        })?;
    let (id, limit) = (child.id().to_string(), Duration::from_secs(limit) + GRACE);
    let (ended, end) = channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    let Ok(output) = end.recv_timeout(limit) else {
        let _ = Command::new("kill").args(["-9", &id]).status();
        return Err(format!("it did not end within {limit:?} and was killed"));
    };
    let output = output.map_err(|e| format!("it could not be waited for: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        return Err(format!("{}: {}", output.status, last_line(said)));
    }
    let figures = Figures::parse(&String::from_utf8_lossy(&output.stdout))?;
    if figures.done == 0 {
        return Err("no task was done within the time limit".to_owned());
    }
    Ok(figures)
}

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("it printed no error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_figures() -> StepResult<()> {
        let text = "noise\n{\"done\": 10, \"seconds\": 2.0, \"processor_seconds\": 0.5, \"facts\": {\"a\": \"b\"}}\n";
        let figures = Figures::parse(text)?;
        assert_eq!((figures.per_second(), figures.micros()), (5.0, 50_000.0));
        assert_eq!(figures.facts["a"], "b");
        assert_eq!((figures.percentiles, figures.memory), (None, None));
        Ok(())
    }

    #[test]
    fn the_error_of_a_program_is_its_last_line() {
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo noise >&2; echo no store >&2; exit 3"]);
        let error = figures(&mut fails, 1).unwrap_err();
        assert!(
            error.contains("3") && error.ends_with(": no store"),
            "{error}"
        );
    }

    #[test]
    fn an_output_without_figures_is_an_error() {
        assert!(Figures::parse("").unwrap_err().contains("no figures"));
        assert!(
            Figures::parse("{\"done\": 1}")
                .unwrap_err()
                .contains("no facts")
        );
    }
}
