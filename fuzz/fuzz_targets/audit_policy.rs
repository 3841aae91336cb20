#![cfg_attr(fuzzing, no_main)]

fuzz::fuzz!("audit_policy");
