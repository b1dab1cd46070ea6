"""The controllers of Job, PodGroup, Queue and CronJob."""
