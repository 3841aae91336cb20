//! Logs: to standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// For processes that have no configuration file.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// error, warn, info, debug or trace, or a filter like apiserver=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "HANGAR_LOG_LEVEL")]
    log_level: String,
    #[arg(long, value_name = "FORMAT", default_value = "text", env = "HANGAR_LOG_FORMAT")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Options {
    /// At least as much as KubeFlex's numbers ask for: from 3 on, it tells why.
    pub fn start_at(&self, verbosity: i32) -> anyhow::Result<()> {
        let level = if verbosity > 2 && self.log_level == "info" { "debug" } else { &self.log_level };
        start(level, self.log_format == Format::Json)
    }

    pub fn start(&self) -> anyhow::Result<()> {
        start(&self.log_level, self.log_format == Format::Json)
    }
}

pub fn start(level: &str, json: bool) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("--log-level {level:?} is not a level or a filter"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}
