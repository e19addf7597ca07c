//! The packages of the published crates: each has to build from the files that its package has.

use std::{fs, path::Path, process::Command};

use super::{cargo, root, run, target};

/// The crates that are published, each after those that it depends on.
pub(crate) const PUBLISHED: [&str; 6] = [
    "windlass-statemachine",
    "windlass-macros",
    "windlass",
    "windlass-exec",
    "windlass-server",
    "windlass-cli",
];

/// What builds the packages.
pub(crate) enum Compiler {
    /// The compiler of this run.
    This,
    /// An installed toolchain, as cargo takes it: `+1.89.0`.
    Other(String),
}

/// Packs the crates, unpacks them into their own workspace, and checks that they build there with all features.
///
/// `cargo package` would build every dependency again for this: the workspace has the locked versions, the profiles and
/// the target folder of this one, so that what other checks have built is used.
pub(crate) fn check(protoc: &Path, compiler: &Compiler) -> Result<(), String> {
    let folder = target().join("packaged");
    let mut package = cargo();
    package.args(["package", "--no-verify", "--allow-dirty", "--target-dir"]);
    package.arg(&folder).args(each("--package"));
    run("the files of the packages", &mut package)?;
    let workspace = folder.join("workspace");
    unpack(&folder.join("package"), &workspace)?;
    let (mut check, what) = match compiler {
        Compiler::This => (cargo(), "the packages".to_owned()),
        Compiler::Other(toolchain) => {
            // The variable CARGO of this run names the cargo of this compiler.
            let mut cargo = Command::new("cargo");
            cargo.arg(toolchain);
            // What another compiler makes is used by no other check, so nothing is gained by making it fast.
            cargo.args(["--config", "profile.dev.package.\"*\".opt-level=0"]);
            (cargo, format!("the packages ({toolchain})"))
        }
    };
    check.current_dir(&workspace).env("PROTOC", protoc);
    check.args(["check", "--workspace", "--all-features", "--target-dir"]);
    run(&what, check.arg(target()))
}

/// Makes the workspace of the packages. One that was there is deleted first.
fn unpack(packages: &Path, workspace: &Path) -> Result<(), String> {
    let fault = |e: std::io::Error| format!("could not unpack the packages: {e}");
    if workspace.exists() {
        fs::remove_dir_all(workspace).map_err(fault)?;
    }
    fs::create_dir_all(workspace).map_err(fault)?;
    for name in PUBLISHED {
        let mut tar = Command::new("tar");
        // With the present time: files of packages have a fixed one, by which cargo would take a changed file for the
        // one that it has built.
        tar.arg("xzmf").arg(packages.join(file(name) + ".crate"));
        run(&format!("unpack {name}"), tar.arg("-C").arg(workspace))?;
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).map_err(fault)?;
    fs::write(workspace.join("Cargo.toml"), manifest_of(&manifest)).map_err(fault)?;
    fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock")).map_err(fault)?;
    Ok(())
}

/// Returns the manifest of the workspace of the packages: they take each other from there, as they will from the registry.
fn manifest_of(manifest: &str) -> String {
    let members = PUBLISHED.map(|name| format!("{:?}", file(name))).join(", ");
    let patches = PUBLISHED.map(|name| format!("{name} = {{ path = {:?} }}\n", file(name)));
    let mut is_profile = false;
    let profiles = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_profile = line.starts_with("[profile.");
        }
        is_profile
    });
    let profiles: Vec<&str> = profiles.collect();
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{}\n{}\n",
        patches.concat(),
        profiles.join("\n")
    )
}

/// Returns the name of a package's file and folder.
fn file(name: &str) -> String {
    format!("{name}-{}", env!("CARGO_PKG_VERSION"))
}

/// Returns an option for each crate.
fn each(option: &str) -> Vec<&str> {
    PUBLISHED.iter().flat_map(|name| [option, name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_of_the_packages_has_the_profiles_and_no_paths_outside() {
        let manifest = "[workspace]\nmembers = [\"xtask\"]\n\n[profile.dev]\ndebug = false\n\n[package]\nname = \"x\"\n";
        let text = manifest_of(manifest);
        assert!(text.contains("[profile.dev]\ndebug = false\n"), "{text}");
        assert!(
            !text.contains("xtask") && !text.contains("[package]"),
            "{text}"
        );
        let version = env!("CARGO_PKG_VERSION");
        let path = format!("windlass = {{ path = \"windlass-{version}\" }}");
        assert!(text.contains(&path), "{text}");
    }

    /// `cargo install --path cli` asks for no other tool: not for cmake, protoc, an assembler or a library of the system.
    #[test]
    fn the_command_line_needs_only_rust_and_a_c_compiler() {
        let mut tree = cargo();
        tree.args(["tree", "--locked", "--package", "windlass-cli"]);
        tree.args(["--edges", "normal,build", "--prefix", "none"]);
        let tree = tree.output().unwrap();
        assert!(tree.status.success(), "{tree:?}");
        let tree = String::from_utf8(tree.stdout).unwrap();
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert!(names.contains("cc") && names.contains("windlass-server"));
        for tool in [
            "aws-lc-sys",
            "bindgen",
            "cmake",
            "nasm-rs",
            "openssl-sys",
            "prost-build",
            "tonic-prost-build",
        ] {
            assert!(!names.contains(tool), "{tool}");
        }
    }

    /// A crate is published unless its manifest says `publish = false`.
    #[test]
    fn every_published_crate_is_checked() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let members = manifest.split_once("members = [").unwrap().1;
        let members = members.split_once(']').unwrap().0;
        let folders = members.split('"').skip(1).step_by(2).chain(["."]);
        let mut published: Vec<String> = folders
            .map(|folder| fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap())
            .filter(|manifest| !manifest.contains("publish = false"))
            .map(|manifest| {
                let name = manifest.split_once("\nname = \"").unwrap().1;
                name.split_once('"').unwrap().0.to_owned()
            })
            .collect();
        published.sort();
        let mut checked = PUBLISHED.to_vec();
        checked.sort_unstable();
        assert_eq!(published, checked);
    }
}
