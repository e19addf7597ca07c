//! The parts of a release that a machine builds.

/// A part of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Crates,
    Program,
    Wheel,
}

/// The parts by their names on the command line, in the order in which they are built.
pub(super) const PARTS: [(&str, Part); 3] = [
    ("crates", Part::Crates),
    ("program", Part::Program),
    ("wheel", Part::Wheel),
];
