//! [`Inherited`]: the files that this process got open from its caller, and which of them its commands get.
//!
//! A script that holds a lock, or a test runner that reads a pipe, starts a worker with that file open. A command that
//! outlives the worker would hold the lock for as long as it runs, so commands get none of these files.
//!
//! Setting the flag of a file by its bare number is unsafe code, because the number may belong to somebody else by then.
//! A copy of the file can be had without: the kernel sends it through a socket. The number is then closed, and the copy
//! takes its place, with the flag. `/dev/fd/7` and `LISTEN_FDS` name the same files as before.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::{ManuallyDrop, MaybeUninit},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use nix::{
    errno::Errno,
    sys::socket::{ControlMessage, MsgFlags, sendmsg},
};
use rustix::{
    io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

/// The folder with the numbers of the open files of this process.
#[cfg(target_os = "linux")]
const LIST: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const LIST: &str = "/dev/fd";

/// The first number that is not standard input, output or error.
pub const FIRST: RawFd = 3;

/// The files that the caller of this process has left open for it, beyond standard input, output and error.
#[derive(Debug, Default)]
pub struct Inherited {
    /// They stay open until the process ends: other parts of the program may use their numbers.
    files: Vec<ManuallyDrop<OwnedFd>>,
    /// The numbers of files that the children of this process get all the same, with the reasons.
    failed: Vec<(RawFd, io::Error)>,
}

impl Inherited {
    /// Keeps the files that the caller has left open from the children of this process. The files stay open in this
    /// process, under their numbers.
    ///
    /// Call it first of all: a thread that opens or closes files meanwhile could lose its file, and a process that was
    /// started before has the files.
    pub fn keep() -> Self {
        let mut kept = Self::default();
        for number in open() {
            match keep(number) {
                Ok(file) => kept.files.push(ManuallyDrop::new(file)),
                Err(error) => kept.failed.push((number, error)),
            }
        }
        kept
    }

    /// Returns whether the caller has left a file open with this number.
    pub fn has(&self, number: RawFd) -> bool {
        let failed = self.failed.iter().map(|(failed, _)| *failed);
        let files = self.files.iter().map(|file| file.as_raw_fd());
        failed.chain(files).any(|has| has == number)
    }

    /// Lets the children of this process have all the files, until [`keep_but`](Self::keep_but): a supervisor starts the
    /// worker, which may read them.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn pass_all(&self) -> io::Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|file| Ok(fcntl_setfd(&**file, FdFlags::empty())?))
    }

    /// Lets the children of this process have the files with these numbers, and none of the others.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn keep_but(&self, numbers: &[RawFd]) -> io::Result<()> {
        for file in &self.files {
            let flags = match numbers.contains(&file.as_raw_fd()) {
                true => FdFlags::empty(),
                false => FdFlags::CLOEXEC,
            };
            match fcntl_setfd(&**file, flags) {
                // The worker has closed the pipes of its supervisor by now.
                Err(rustix::io::Errno::BADF) => {}
                answer => answer?,
            }
        }
        Ok(())
    }

    /// Logs the files that the children of this process get although no option names them. [`keep`](Self::keep) comes
    /// before the log is set up.
    pub fn warn(&self) {
        for (number, error) in &self.failed {
            tracing::warn!(
                fd = number,
                %error,
                "a file of the caller could not be kept from the commands; close it before the start"
            );
        }
    }
}

/// Keeps the file with this number from children.
fn keep(number: RawFd) -> io::Result<OwnedFd> {
    let copy = copy(number)?;
    nix::unistd::close(number)?;
    // The lowest free number from here on is the one that was just closed.
    let kept = fcntl_dupfd_cloexec(&copy, number)?;
    match kept.as_raw_fd() == number {
        true => Ok(kept),
        false => Err(io::Error::other("another thread has taken its number")),
    }
}

/// Returns a copy of the file with this number.
fn copy(number: RawFd) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    const FLAGS: RecvFlags = RecvFlags::empty();
    let (from, to) = UnixStream::pair()?;
    let one = [number];
    let message = [ControlMessage::ScmRights(&one)];
    // A message has at least a byte.
    sendmsg::<()>(
        from.as_raw_fd(),
        &[IoSlice::new(&[0])],
        &message,
        MsgFlags::empty(),
        None,
    )?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut received = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&to, &mut [IoSliceMut::new(&mut byte)], &mut received, FLAGS)?;
    let files = received.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    // A limit of open files, or a security module, leaves the message without its file.
    files.flatten().next().ok_or_else(|| Errno::EBADF.into())
}

/// Returns the numbers of the open files that children would get.
fn open() -> Vec<RawFd> {
    let Ok(listed) = std::fs::read_dir(LIST) else {
        return Vec::new();
    };
    let numbers =
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    let mut numbers: Vec<RawFd> = numbers.filter(|number| *number >= FIRST).collect();
    // The list itself is closed by now, and so is its number.
    numbers.retain(|number| passes(*number));
    numbers
}

/// Returns whether children get the open file with this number.
#[cfg(target_os = "linux")]
fn passes(number: RawFd) -> bool {
    use nix::fcntl::OFlag;
    let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")) else {
        return false;
    };
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    // Unknown flags: the flag that keeps it from children may be set twice.
    flags.is_none_or(|flags| flags & OFlag::O_CLOEXEC.bits() == 0)
}

/// Returns whether a file with this number is open: the system does not report its flags.
#[cfg(not(target_os = "linux"))]
fn passes(number: RawFd) -> bool {
    std::fs::symlink_metadata(format!("/dev/fd/{number}")).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Seek, Write},
    };

    use super::*;

    #[test]
    fn a_kept_file_has_its_number_and_its_place_and_no_child_gets_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        let number = file.as_raw_fd();
        assert!(open().contains(&number));
        let mut copy = File::from(copy(number).unwrap());
        assert!(!open().contains(&copy.as_raw_fd()));
        copy.write_all(b" and after").unwrap();
        // One description, so one place.
        file.rewind().unwrap();
        let mut text = String::new();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before and after");
    }

    #[test]
    fn a_number_without_a_file_is_not_the_callers() {
        assert!(!Inherited::default().has(7));
    }
}
