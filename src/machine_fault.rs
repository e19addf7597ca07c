//! [`MachineFault`]: classifies errors of the operating system as faults of the machine.

use std::io::{self, ErrorKind};

/// What a machine lacks when it cannot start a process, or open or write a file. It is a fault of the
/// node, not of the task. Its text says what to do.
///
/// # Example
///
/// ```
/// use windlass::{BoxError, MachineFault, Message, TaskContext};
///
/// async fn render(task: TaskContext) -> Result<Message, BoxError> {
///     match std::process::Command::new("true").status() {
///         Ok(_) => Ok(Message::complete()),
///         Err(e) => match MachineFault::of(&e) {
///             Some(fault) => Ok(task.node_fault(fault)),
///             None => Err(e.into()),
///         },
///     }
/// }
/// # fn is_handler(_: impl windlass::StatefulHandler) {}
/// # is_handler(render);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MachineFault {
    /// The process may not open more files (EMFILE).
    Descriptors,
    /// The system cannot open more files (ENFILE).
    SystemDescriptors,
    /// The user or the service may not start more processes (EAGAIN).
    Processes,
    /// There is no memory (ENOMEM).
    Memory,
    /// The disk is full (ENOSPC).
    DiskFull,
    /// The user may not use more of the disk (EDQUOT).
    Quota,
    /// The disk fails (EIO).
    Disk,
    /// The program is open for writing, because it is being replaced (ETXTBSY).
    ProgramBusy,
}

// The same number on every Unix.
#[cfg(unix)]
const EIO: i32 = 5;
#[cfg(unix)]
const ENFILE: i32 = 23;
#[cfg(unix)]
const EMFILE: i32 = 24;

impl MachineFault {
    /// Returns the fault that this error reports; `None` for other errors, such as a file that does
    /// not exist. Pass only errors of starting a process or a thread, or of opening or writing a
    /// file: elsewhere EAGAIN has another meaning.
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::WouldBlock => Some(Self::Processes),
            ErrorKind::OutOfMemory => Some(Self::Memory),
            ErrorKind::StorageFull => Some(Self::DiskFull),
            ErrorKind::QuotaExceeded => Some(Self::Quota),
            ErrorKind::ExecutableFileBusy => Some(Self::ProgramBusy),
            _ => Self::of_number(error.raw_os_error()?),
        }
    }

    #[cfg(unix)]
    fn of_number(number: i32) -> Option<Self> {
        match number {
            EMFILE => Some(Self::Descriptors),
            ENFILE => Some(Self::SystemDescriptors),
            EIO => Some(Self::Disk),
            _ => None,
        }
    }

    #[cfg(not(unix))]
    fn of_number(_: i32) -> Option<Self> {
        None
    }

    /// Returns what the machine lacks.
    pub fn what(self) -> &'static str {
        match self {
            Self::Descriptors => "no file descriptors left (EMFILE)",
            Self::SystemDescriptors => "the system has no file descriptors left (ENFILE)",
            Self::Processes => "no more processes are allowed (EAGAIN)",
            Self::Memory => "no memory left (ENOMEM)",
            Self::DiskFull => "the disk is full (ENOSPC)",
            Self::Quota => "the disk quota is used up (EDQUOT)",
            Self::Disk => "the disk fails (EIO)",
            Self::ProgramBusy => "the program is being written (ETXTBSY)",
        }
    }

    /// Returns what an operator can do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Descriptors => "raise the limit with ulimit -n, or LimitNOFILE= of the service",
            Self::SystemDescriptors => {
                "raise fs.file-max, or end the processes that have many files open"
            }
            Self::Processes => "raise the limit with ulimit -u, or TasksMax= of the service",
            Self::Memory => "free memory, or run fewer tasks at once",
            Self::DiskFull => "free space on that disk",
            Self::Quota => "delete files, or raise the quota",
            Self::Disk => "check the log of the kernel (dmesg)",
            Self::ProgramBusy => "end the process that has it open for writing",
        }
    }
}

impl std::fmt::Display for MachineFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.what(), self.advice())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_known_by_the_number_of_the_system() {
        for (number, fault) in [
            (24, MachineFault::Descriptors),
            (23, MachineFault::SystemDescriptors),
            (11, MachineFault::Processes),
            (12, MachineFault::Memory),
            (28, MachineFault::DiskFull),
            (122, MachineFault::Quota),
            (5, MachineFault::Disk),
            (26, MachineFault::ProgramBusy),
        ] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(MachineFault::of(&error), Some(fault), "{error}");
        }
    }

    #[test]
    fn a_missing_or_forbidden_program_is_no_fault_of_the_machine() {
        // ENOENT, E2BIG, ENOEXEC, EACCES, ENOTDIR.
        for number in [2, 7, 8, 13, 20] {
            let error = io::Error::from_raw_os_error(number);
            assert_eq!(MachineFault::of(&error), None, "{error}");
        }
        assert_eq!(MachineFault::of(&io::Error::other("x")), None);
    }
}
