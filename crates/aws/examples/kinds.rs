//! Writes docs/aws-kinds.md: `cargo run -p aws --example kinds`.

fn main() -> std::io::Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/aws-kinds.md");
    std::fs::write(file, aws::kinds::table::page())
}
