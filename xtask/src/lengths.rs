//! The length of files in Rust and Python: a longer one has more than one topic, or a piece with its own name.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How many lines a source file has at most.
const MOST: usize = 400;

/// Checks every source file below a folder. Returns what is wrong, a line each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    if let Err(error) = collect(root, &mut files) {
        return vec![format!("could not read the sources: {error}")];
    }
    files.sort();
    files
        .iter()
        .filter_map(|file| {
            wrong(
                file.strip_prefix(root).unwrap_or(file),
                fs::read_to_string(file),
            )
        })
        .collect()
}

fn wrong(name: &Path, text: io::Result<String>) -> Option<String> {
    let name = name.display();
    match text.map(|text| text.lines().count()) {
        Ok(lines) if lines > MOST => Some(format!(
            "{name} has {lines} lines, and {MOST} are the most; move a piece that has a name of its own into another file"
        )),
        Ok(_) => None,
        Err(error) => Some(format!("could not read {name}: {error}")),
    }
}

/// Adds the source files below a folder, without those of builds, of hidden folders, and generated ones.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|ending| ending == "rs" || ending == "py")
            && !is_generated(&name)
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns whether a file is made of others: `make_sync.py` of the Python SDK makes `_sync*.py`.
fn is_generated(name: &str) -> bool {
    name.starts_with("_sync") && name.ends_with(".py")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_named_with_its_length() {
        let name = Path::new("src/a.rs");
        assert_eq!(wrong(name, Ok("\n".repeat(MOST))), None);
        let text = wrong(name, Ok("\n".repeat(MOST + 1))).unwrap();
        assert!(
            text.starts_with("src/a.rs has 401 lines, and 400 are the most"),
            "{text}"
        );
    }

    #[test]
    fn every_folder_but_those_of_builds_is_read() {
        let root = crate::root();
        let mut files = Vec::new();
        collect(&root, &mut files).unwrap();
        assert!(files.contains(&root.join(file!())));
        assert!(files.contains(&root.join("src/lib.rs")));
        let python = root.join("sdk/python/src/windlass_tasks");
        assert!(files.contains(&python.join("_aio.py")));
        assert!(!files.contains(&python.join("_sync.py")));
        assert!(
            !files
                .iter()
                .any(|file| file.starts_with(root.join("target")))
        );
    }
}
