//! Finds out whether the processes that hold a lease have ended.
//!
//! All nodes on a SQLite file are processes of one machine. A killed process can neither renew its
//! lease nor write, so its tasks need not wait for the end of the lease. A process counts only if it
//! has certainly ended; otherwise the lease expires by time.
//!
//! A process may have a supervisor, which stops what the process has started. Then both hold the lease:
//! the tasks are free when both have ended.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Stands for the processes in the lease of a remote worker, which no end of a process ends.
pub(super) const NO_PROCESS: &str = "none";

/// Returns this process and its supervisor in a form by which other processes of the machine can
/// recognize them: their namespace of process ids, and the id and start time of each. `None` if this is
/// not known (not on Linux).
pub(super) fn holders(supervisor: Option<u32>) -> Option<String> {
    Proc::new("/proc").holders(std::process::id(), supervisor)
}

/// Returns whether all of these processes have certainly ended.
pub(super) fn has_ended(holders: &str) -> bool {
    Proc::new("/proc").has_ended(std::process::id(), holders, is_free)
}

/// The folder in which the system lists processes.
struct Proc {
    root: PathBuf,
}

impl Proc {
    fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Like [`holders`], for the process `own`.
    fn holders(&self, own: u32, supervisor: Option<u32>) -> Option<String> {
        let mut text = self.namespace(own)?;
        for pid in supervisor.into_iter().chain([own]) {
            text.push_str(&format!(" {pid} {}", stat(&self.of(pid))?.started));
        }
        Some(text)
    }

    /// Like [`has_ended`], for the process `own`. `is_free` returns whether no process has an id.
    fn has_ended(&self, own: u32, holders: &str, is_free: impl Fn(u32) -> bool) -> bool {
        let parts: Vec<&str> = holders.split(' ').collect();
        let Some((space, processes)) = parts.split_first() else {
            return false;
        };
        let (processes, rest) = processes.as_chunks::<2>();
        !processes.is_empty()
            && rest.is_empty()
            && self.namespace(own).as_deref() == Some(*space)
            && (processes.iter()).all(|[pid, started]| self.is_over(pid, started, &is_free))
    }

    fn is_over(&self, pid: &str, started: &str, is_free: impl Fn(u32) -> bool) -> bool {
        let Ok(pid) = pid.parse() else { return false };
        match stat(&self.of(pid)) {
            // Another process has reused the id.
            Some(stat) if stat.started != started => true,
            Some(stat) => stat.dead && self.has_no_live_thread(pid),
            // The system may hide the processes of other users.
            None => is_free(pid),
        }
    }

    fn of(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string())
    }

    /// Returns the namespace of process ids of this process; `None` when the folder lists the processes
    /// of another namespace. A container may have the `/proc` of the machine, whose ids differ from
    /// those inside the container.
    fn namespace(&self, own: u32) -> Option<String> {
        let itself = self.root.join("self");
        if fs::read_link(&itself).ok()? != Path::new(&own.to_string()) {
            return None;
        }
        // The ids of this process, from the namespace of the folder to its own: one id if both are the
        // same. Linux before 4.1 has no such line.
        let status = fs::read_to_string(itself.join("status")).ok()?;
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        if ids.is_some_and(|ids| ids.split_whitespace().count() != 1) {
            return None;
        }
        let link = fs::read_link(itself.join("ns/pid")).ok()?;
        link.to_str().map(ToOwned::to_owned)
    }

    /// Returns whether all threads of a process have certainly ended. When the first thread ends before
    /// the others, the process looks like a dead one that waits for its parent.
    fn has_no_live_thread(&self, pid: u32) -> bool {
        let Ok(threads) = fs::read_dir(self.of(pid).join("task")) else {
            return false;
        };
        // A thread that ends at this moment is read again the next time.
        let is_dead = |thread: std::io::Result<fs::DirEntry>| {
            let thread = thread.ok().and_then(|thread| stat(&thread.path()));
            thread.is_some_and(|thread| thread.dead)
        };
        let mut threads = threads.peekable();
        threads.peek().is_some() && threads.all(is_dead)
    }
}

struct Stat {
    dead: bool,
    started: String,
}

/// Reads the file `stat` of a process or thread.
fn stat(folder: &Path) -> Option<Stat> {
    let text = fs::read_to_string(folder.join("stat")).ok()?;
    // The name, in parentheses, may contain any characters.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let started = fields.nth(18)?.to_owned();
    Some(Stat { dead, started })
}

#[cfg(unix)]
fn is_free(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else {
        return false;
    };
    let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None);
    pid > 0 && sent == Err(nix::errno::Errno::ESRCH)
}

#[cfg(not(unix))]
fn is_free(_pid: u32) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{
        io::Write,
        os::unix::fs::symlink,
        process::{Command, Stdio},
    };

    use super::*;

    fn of(pid: u32) -> String {
        let proc = Proc::new("/proc");
        let started = stat(&proc.of(pid)).unwrap().started;
        let space = proc.namespace(std::process::id()).unwrap();
        format!("{space} {pid} {started}")
    }

    #[test]
    fn this_process_lives() {
        assert!(!has_ended(&holders(None).unwrap()));
    }

    #[test]
    fn a_killed_process_has_ended_before_and_after_its_parent_waits() {
        let mut child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let process = of(child.id());
        assert!(!has_ended(&process));
        child.kill().unwrap();
        while !has_ended(&process) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(&process));
    }

    #[test]
    fn another_process_with_its_number_is_not_it() {
        let own = holders(None).unwrap();
        let (front, _) = own.rsplit_once(' ').unwrap();
        assert!(has_ended(&format!("{front} 1")));
    }

    #[test]
    fn an_unknown_process_keeps_its_lease() {
        let space = Proc::new("/proc").namespace(std::process::id()).unwrap();
        for process in ["", "x", "pid:[1] 1 1", "pid:[1] x 1"] {
            assert!(!has_ended(process), "{process}");
        }
        for rest in ["", " ", " 1", " x 1", " 1 1 1"] {
            assert!(!has_ended(&format!("{space}{rest}")), "{rest}");
        }
    }

    #[test]
    fn a_lease_with_a_supervisor_lasts_until_both_have_ended() {
        let start = || Command::new("sleep").arg("600").spawn().unwrap();
        for supervisor_first in [true, false] {
            let (mut first, mut second) = (start(), start());
            let pids = match supervisor_first {
                true => [first.id(), second.id()],
                false => [second.id(), first.id()],
            };
            let [one, other] = pids.map(of);
            let (_, other) = other.split_once(' ').unwrap();
            let both = format!("{one} {other}");
            first.kill().unwrap();
            first.wait().unwrap();
            assert!(!has_ended(&both), "the other one lives");
            second.kill().unwrap();
            second.wait().unwrap();
            assert!(has_ended(&both));
        }
        let me = std::process::id();
        let supervised = holders(Some(me)).unwrap();
        assert_eq!(supervised.split(' ').count(), 5, "{supervised}");
    }

    /// A folder in the form of `/proc`, as seen by process 7.
    struct Fake {
        folder: tempfile::TempDir,
    }

    const OWN: u32 = 7;

    impl Fake {
        fn new() -> Self {
            let fake = Self {
                folder: tempfile::tempdir().unwrap(),
            };
            fake.process(OWN, "S", &[("S", OWN)]);
            fake.see_self_as(OWN, &OWN.to_string());
            fake
        }

        fn proc(&self) -> Proc {
            Proc::new(self.folder.path())
        }

        /// Sets the process that `self` leads to, and its ids by namespace.
        fn see_self_as(&self, pid: u32, ids: &str) {
            let itself = self.folder.path().join("self");
            let _ = fs::remove_file(&itself);
            symlink(pid.to_string(), &itself).unwrap();
            let _ = fs::create_dir_all(itself.join("ns"));
            let _ = symlink("pid:[4026]", itself.join("ns/pid"));
            fs::write(itself.join("status"), format!("Name:\tx\nNSpid:\t{ids}\n")).unwrap();
        }

        fn process(&self, pid: u32, state: &str, threads: &[(&str, u32)]) {
            let write = |folder: PathBuf, state: &str| {
                fs::create_dir_all(&folder).unwrap();
                let zeros = "0 ".repeat(18);
                let stat = format!("{pid} (a) b) {state} {zeros}555 0\n");
                fs::write(folder.join("stat"), stat).unwrap();
            };
            let folder = self.folder.path().join(pid.to_string());
            let _ = fs::remove_dir_all(&folder);
            write(folder.clone(), state);
            for (state, thread) in threads {
                write(folder.join("task").join(thread.to_string()), state);
            }
        }

        fn has_ended(&self, pid: u32) -> bool {
            let process = format!("pid:[4026] {pid} 555");
            self.proc().has_ended(OWN, &process, |_| true)
        }
    }

    #[test]
    fn a_first_thread_that_has_ended_ends_no_process() {
        let fake = Fake::new();
        fake.process(20, "Z", &[("Z", 20), ("S", 21)]);
        assert!(!fake.has_ended(20), "thread 21 lives");
        fake.process(20, "Z", &[("Z", 20), ("X", 21)]);
        assert!(fake.has_ended(20));
        fake.process(20, "Z", &[]);
        assert!(!fake.has_ended(20), "its threads are not known");
        fake.process(20, "S", &[("S", 20)]);
        assert!(!fake.has_ended(20));
        assert!(fake.has_ended(21), "there is no such process");
    }

    #[test]
    fn the_processes_of_another_namespace_are_not_known() {
        let fake = Fake::new();
        assert_eq!(
            fake.proc().holders(OWN, None).as_deref(),
            Some("pid:[4026] 7 555")
        );
        assert!(fake.has_ended(20));
        // Its id in the namespace of the folder is another one, or the same by chance.
        fake.process(900, "S", &[("S", 900)]);
        for (pid, ids) in [(900, "900 7"), (OWN, "7 7")] {
            fake.see_self_as(pid, ids);
            assert_eq!(fake.proc().holders(OWN, None), None);
            assert!(!fake.has_ended(20));
        }
        // A folder that does not show this process at all.
        fs::remove_file(fake.folder.path().join("self")).unwrap();
        assert_eq!(fake.proc().holders(OWN, None), None);
        assert!(!fake.has_ended(20));
    }

    /// A real process whose first thread has ended, while another thread lives.
    #[test]
    fn a_process_without_its_first_thread_lives() {
        let script = "import ctypes, threading, time\n\
            threading.Thread(target=time.sleep, args=(600,)).start()\n\
            ctypes.CDLL(None).pthread_exit(None)\n";
        let Ok(mut child) = Command::new("python3").args(["-c", script]).spawn() else {
            // Not with a macro, because the test runner hides its output for a test that passes.
            let _ = writeln!(std::io::stderr(), "NOT TESTED HERE: there is no python3");
            return;
        };
        let process = of(child.id());
        let folder = Proc::new("/proc").of(child.id());
        while !stat(&folder).is_some_and(|stat| stat.dead) {
            assert!(child.try_wait().unwrap().is_none(), "it has not begun");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let ended = has_ended(&process);
        child.kill().unwrap();
        assert!(!ended, "its second thread lives");
        while !has_ended(&process) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
