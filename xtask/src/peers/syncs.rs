//! [`Tracer`]: counts the calls of a job that sync a file, by `strace`.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use super::StepResult;

/// The calls that sync a file.
const CALLS: &str = "fsync,fdatasync,sync_file_range,msync";

/// A `strace` that works here.
#[derive(Debug)]
pub(super) struct Tracer(());

impl Tracer {
    pub(super) fn find() -> StepResult<Self> {
        let mut probe = Command::new("strace");
        probe.args(["-f", "-o", "/dev/null", "true"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        match probe.status() {
            Ok(status) if status.success() => Ok(Self(())),
            Ok(status) => Err(format!("strace may not trace here: {status}")),
            Err(e) => Err(format!("strace could not be started: {e}; install it")),
        }
    }

    /// A command that runs the program and writes each of the calls to a file.
    pub(super) fn command(&self, program: &Path, calls: &Path) -> Command {
        let mut strace = Command::new("strace");
        // With the filter in the kernel, other calls run at full speed.
        strace.args(["-f", "--seccomp-bpf", "-qq", "-e", "signal=none"]);
        strace.args(["-e", &format!("trace={CALLS}"), "-o"]);
        strace.arg(calls).arg(program);
        strace
    }

    /// Traces a server that runs, until [`Tracer::detach`].
    pub(super) fn attach(&self, processes: &[u32], calls: &Path) -> StepResult<Child> {
        let mut strace = Command::new("strace");
        strace.args([
            "-f",
            "-qq",
            "-e",
            "signal=none",
            "-e",
            &format!("trace={CALLS}"),
        ]);
        strace.arg("-o").arg(calls);
        for process in processes {
            strace.args(["-p", &process.to_string()]);
        }
        let tracer = strace.spawn();
        let tracer = tracer.map_err(|e| format!("strace could not be started: {e}"))?;
        let is_traced = |process: &u32| {
            let status = fs::read_to_string(format!("/proc/{process}/status"));
            let line = format!("TracerPid:\t{}\n", tracer.id());
            // One that has ended in the meantime needs no tracer.
            status.map_or(true, |status| status.contains(&line))
        };
        for _ in 0..100 {
            if processes.iter().all(is_traced) {
                return Ok(tracer);
            }
            sleep(Duration::from_millis(20));
        }
        self.detach(tracer)?;
        Err("strace did not attach to the server".to_owned())
    }

    /// Ends a tracer; its server continues.
    pub(super) fn detach(&self, mut tracer: Child) -> StepResult<()> {
        let id = tracer.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status();
        killed
            .and_then(|_| tracer.wait())
            .map(drop)
            .map_err(|e| format!("strace: {e}"))
    }

    /// The number of calls in the file.
    pub(super) fn count(&self, calls: &Path) -> StepResult<usize> {
        let text = fs::read_to_string(calls).map_err(|e| format!("{}: {e}", calls.display()))?;
        Ok(count(&text))
    }
}

/// A call that another thread interrupts has a second line, which says that it resumed.
fn count(text: &str) -> usize {
    let is_call = |line: &&str| !line.contains(" resumed>") && line.contains('(');
    text.lines().filter(is_call).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_two_lines_counts_once() {
        let text = "10 fdatasync(9) = 0\n11 fsync(7 <unfinished ...>\n10 fdatasync(9) = 0\n\
                    11 <... fsync resumed>) = 0\n12 +++ exited with 0 +++\n";
        assert_eq!(count(text), 3);
    }
}
