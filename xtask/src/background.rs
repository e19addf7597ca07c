//! Steps that run beside others: their output is kept, and printed at their end.

use std::{
    env,
    fs::File,
    io::{self, Read, Seek, Write},
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::Instant,
};

/// What one step printed, and its error.
struct Done {
    name: &'static str,
    seconds: u64,
    output: io::Result<Vec<u8>>,
    error: Option<String>,
}

/// Steps that run one after another in a thread of their own. Each bounds its own time.
pub(crate) struct BackgroundSteps(JoinHandle<Vec<Done>>);

impl BackgroundSteps {
    /// Starts the first step.
    pub(crate) fn start(steps: Vec<(&'static str, Command)>) -> Self {
        for (name, _) in &steps {
            eprintln!("==> {name}: beside the next steps, with its output at their end");
        }
        let run = move || steps.into_iter().map(|(name, step)| done(name, step));
        Self(thread::spawn(move || run().collect()))
    }

    /// Waits until all have ended, prints their output, and returns their errors.
    pub(crate) fn finish(self) -> Vec<String> {
        let Ok(all) = self.0.join() else {
            return vec!["the steps beside the others panicked".to_owned()];
        };
        let mut errors = Vec::new();
        for done in all {
            eprintln!("==> {} ({} s)", done.name, done.seconds);
            let printed = done.output.and_then(|text| io::stdout().write_all(&text));
            errors.extend(
                printed
                    .err()
                    .map(|e| format!("{}: its output: {e}", done.name)),
            );
            errors.extend(done.error);
        }
        errors
    }
}

fn done(name: &'static str, mut step: Command) -> Done {
    let started = Instant::now();
    let kept = tempfile();
    let (mut output, error) = match kept {
        Err(e) => (Err(e), Some(format!("{name}: no file for its output"))),
        Ok(file) => {
            let error = run(name, &mut step, &file).err();
            (Ok(file), error)
        }
    };
    let text = output
        .as_mut()
        .map_err(|e| io::Error::new(e.kind(), e.to_string()));
    let text = text.and_then(|file| {
        let mut text = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok(text)
    });
    Done {
        name,
        seconds: started.elapsed().as_secs(),
        output: text,
        error,
    }
}

fn run(name: &str, step: &mut Command, output: &File) -> Result<(), String> {
    let copy = || output.try_clone().map_err(|e| format!("{name}: {e}"));
    step.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
    match step.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(e) => Err(format!("{name}: could not be started: {e}")),
    }
}

/// Returns a file without a name.
fn tempfile() -> io::Result<File> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("windlass-beside-{}-{number}", std::process::id());
    let path = env::temp_dir().join(name);
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]);
        sh
    }

    #[test]
    fn each_step_runs_and_each_error_is_returned() {
        let steps = vec![("one", sh("echo out; exit 3")), ("two", sh("exit 0"))];
        assert_eq!(
            BackgroundSteps::start(steps).finish(),
            ["one: exit status: 3"]
        );
    }

    #[test]
    fn the_output_of_a_step_is_kept() {
        let done = done("one", sh("echo out; echo err >&2"));
        assert_eq!(done.output.unwrap(), b"out\nerr\n");
        assert_eq!(done.error, None);
    }

    #[test]
    fn a_step_that_cannot_be_started_is_named() {
        let error = done("one", Command::new("/no/such/program")).error;
        assert!(error.unwrap().starts_with("one: could not be started: "));
    }
}
