//! Tells the program which commit it was built from and when, as far as the build was told.

fn main() {
    for name in ["KOLLECT_COMMIT", "KOLLECT_BUILT"] {
        println!("cargo::rerun-if-env-changed={name}");
        let value = std::env::var(name).unwrap_or_else(|_| "unknown".to_owned());
        println!("cargo::rustc-env={name}={value}");
    }
}
