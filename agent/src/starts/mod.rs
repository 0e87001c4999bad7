//! How environments come into being: the template and its forks, ordinary starts, replacements, and the first reset.

pub(crate) mod config;
pub(crate) mod creation;
mod fork;
mod hello;
mod measure;
pub(crate) mod queue;
mod spawn;
pub(crate) mod template;
mod template_events;

pub(crate) use template_events::EXIT_STATUS_US;
