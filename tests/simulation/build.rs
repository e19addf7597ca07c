//! Compiles the source of random bytes for the programs of the simulation.

fn main() {
    println!("cargo:rerun-if-changed=repeatable.c");
    // An object instead of a library: the linker takes nothing out of a library for a weak symbol.
    for object in cc::Build::new()
        .file("repeatable.c")
        .compile_intermediates()
    {
        println!("cargo:rustc-link-arg-bins={}", object.display());
        println!("cargo:rustc-link-arg-tests={}", object.display());
    }
}
