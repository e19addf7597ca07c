//! The program `windlass`; its code is in the library of this package.

fn main() -> std::process::ExitCode {
    windlass_cli::main()
}
