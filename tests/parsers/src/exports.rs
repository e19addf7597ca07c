//! Files with the lines of an export.

use std::io::{Seek, SeekFrom, Write};

use windlass::store::{
    Store,
    copy::{FileError, Import},
};

use crate::{in_virtual_time, within_bounds};

/// Reads the lines of a file. Returns whether each line is accepted.
///
/// A file that is accepted is imported, and its tasks are exported. The next import and export write the same lines.
pub fn check(input: &[u8]) -> bool {
    within_bounds(|| read(input))
}

fn read(input: &[u8]) -> bool {
    let how = Import::new().accept_missing();
    match how.check(input) {
        Ok(()) => {}
        Err(FileError::Line { line, reason }) => {
            assert!(line > 0 && !reason.is_empty());
            return false;
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    }
    let runtime = in_virtual_time();
    runtime.block_on(async {
        if let Some(once) = copied(input, &how).await {
            let twice = copied(&once, &how).await.expect("a file that was exported");
            assert_eq!(
                String::from_utf8_lossy(&tasks(&twice)),
                String::from_utf8_lossy(&tasks(&once))
            );
        }
    });
    true
}

/// Imports a file into an empty store, and exports that store. `None` if the store refuses the import.
async fn copied(file: &[u8], how: &Import) -> Option<Vec<u8>> {
    let mut named = tempfile::tempfile().unwrap();
    named.write_all(file).unwrap();
    named.seek(SeekFrom::Start(0)).unwrap();
    let store = Store::open("memory:").await.unwrap();
    match store.import(&named, how, |_| ()).await {
        Ok(report) if report.is_whole() => {}
        Ok(_) => return None,
        Err(refused) => {
            assert!(!refused.to_string().is_empty());
            return None;
        }
    }
    let mut exported = Vec::new();
    let written = store.export(&mut exported, |_| ()).await.unwrap();
    assert!(written.is_whole());
    Some(exported)
}

/// Returns the lines after the first one, which has the time of the export.
fn tasks(file: &[u8]) -> Vec<u8> {
    let head = file.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    file[head..].to_vec()
}
