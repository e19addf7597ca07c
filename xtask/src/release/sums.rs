//! `SHA256SUMS`: one line a file, as `sha256sum --check` reads them.

use std::{fs, path::Path, process::Command};

use super::{fault, files, name};
use crate::run;

/// The file.
pub(super) const FILE: &str = "SHA256SUMS";

/// Writes the sums of the files in a folder, and checks them as a user does.
///
/// # Errors
///
/// When the folder has no file, and when a sum does not fit.
pub(super) fn write(folder: &Path) -> Result<(), String> {
    let mut names: Vec<String> = files(folder)?.iter().map(|file| name(file)).collect();
    names.retain(|name| name != FILE);
    if names.is_empty() {
        return Err(format!("{} has no files to sum", folder.display()));
    }
    let mut sum = program();
    sum.current_dir(folder).args(&names);
    let out = sum.output();
    let out = out.map_err(|e| format!("sha256sum: could not be started: {e}"))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr);
        return Err(format!("sha256sum: {}: {}", out.status, why.trim()));
    }
    let file = folder.join(FILE);
    fs::write(&file, out.stdout).map_err(|e| fault(&file, &e))?;
    let mut check = program();
    check
        .current_dir(folder)
        .args(["--check", "--strict", FILE]);
    run(&format!("{FILE} of {} files", names.len()), &mut check)
}

/// macOS has another program of the same form.
fn program() -> Command {
    if cfg!(target_os = "macos") {
        let mut shasum = Command::new("shasum");
        shasum.args(["--algorithm", "256"]);
        return shasum;
    }
    Command::new("sha256sum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_sum_and_a_folder_without_files_is_an_error() {
        let folder = std::env::temp_dir().join(format!("windlass-sums-{}", std::process::id()));
        super::super::empty(&folder).unwrap();
        assert!(write(&folder).unwrap_err().contains("has no files to sum"));
        fs::write(folder.join("a"), "abc").unwrap();
        fs::write(folder.join("b.whl"), "").unwrap();
        // A second time: the file of the sums has none.
        for _ in 0..2 {
            write(&folder).unwrap();
        }
        let sums = fs::read_to_string(folder.join(FILE)).unwrap();
        assert_eq!(
            sums,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.whl\n"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
