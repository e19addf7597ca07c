//! [`Op`]: one recorded change of a file, and how a trace of them is read.

use std::sync::Arc;

use windlass_robustness::BoxError;

/// One call of the recorded process, in the order of the calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Opens a file by its name in the folder, and creates it if there is none. `.` is the folder.
    Open {
        /// The descriptor.
        fd: i32,
        /// The name within the folder.
        name: String,
        /// Whether the content is dropped.
        truncate: bool,
    },
    /// Closes a descriptor.
    Close {
        /// The descriptor.
        fd: i32,
    },
    /// Writes bytes.
    Write {
        /// The descriptor.
        fd: i32,
        /// The offset in the file.
        at: usize,
        /// The bytes.
        data: Arc<[u8]>,
    },
    /// Cuts a file to a length, or extends it with zeros.
    Truncate {
        /// The descriptor.
        fd: i32,
        /// The new length.
        len: usize,
    },
    /// Makes all earlier changes of a file durable, or all earlier changes of names.
    Sync {
        /// The descriptor of a file, or of the folder.
        fd: i32,
        /// The length of the file at that moment.
        len: usize,
    },
    /// Removes a name.
    Unlink {
        /// The name within the folder.
        name: String,
    },
}

/// The length of a record's header: operation, descriptor, offset, size.
const HEADER: usize = 24;

/// Reads a trace of `recorder.c`.
///
/// # Errors
///
/// When the trace is cut off, or holds a call that the recorder cannot describe.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Op>, BoxError> {
    let mut ops = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_at_checked(HEADER).ok_or(CUT_OFF)?;
        let size = usize::try_from(u64::from_ne_bytes(header[16..24].try_into()?))?;
        let (data, rest) = rest.split_at_checked(size).ok_or(CUT_OFF)?;
        bytes = rest;
        let op = u32::from_ne_bytes(header[..4].try_into()?);
        let fd = i32::from_ne_bytes(header[4..8].try_into()?);
        let at = usize::try_from(u64::from_ne_bytes(header[8..16].try_into()?))?;
        let text = || String::from_utf8_lossy(data).into_owned();
        ops.push(match char::from_u32(op) {
            Some('O') => Op::Open {
                fd,
                name: text(),
                truncate: at != 0,
            },
            Some('C') => Op::Close { fd },
            Some('W') => {
                let data = data.into();
                Op::Write { fd, at, data }
            }
            Some('T') => Op::Truncate { fd, len: at },
            Some('S') => Op::Sync { fd, len: at },
            Some('U') => Op::Unlink { name: text() },
            Some('X') => {
                let call = text();
                return Err(format!("the process called {call}, which is not recorded").into());
            }
            _ => return Err(format!("operation {op} of the trace is not known").into()),
        });
    }
    Ok(ops)
}

const CUT_OFF: &str = "the trace is cut off";

#[cfg(test)]
mod tests {
    use super::*;

    fn record(op: char, fd: i32, at: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(u32::from(op).to_ne_bytes());
        bytes.extend(fd.to_ne_bytes());
        bytes.extend(at.to_ne_bytes());
        bytes.extend((data.len() as u64).to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn records_are_read_in_order() {
        let trace = [
            record('O', 7, 1, b"a"),
            record('W', 7, 512, b"xyz"),
            record('S', 7, 515, b""),
        ];
        let name = "a".to_owned();
        let data = Arc::from(*b"xyz");
        let expected = [
            Op::Open {
                fd: 7,
                name,
                truncate: true,
            },
            Op::Write {
                fd: 7,
                at: 512,
                data,
            },
            Op::Sync { fd: 7, len: 515 },
        ];
        assert_eq!(parse(&trace.concat()).unwrap(), expected);
    }

    #[test]
    fn a_trace_with_a_gap_is_refused() {
        let whole = record('W', 7, 0, b"xyz");
        assert!(parse(&whole[..whole.len() - 1]).is_err());
        assert!(parse(&whole[..HEADER - 1]).is_err());
        let why = parse(&record('X', 7, 0, b"writev")).unwrap_err();
        assert!(why.to_string().contains("called writev"), "{why}");
    }
}
