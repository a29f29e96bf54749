#!/bin/sh
# Stands for the start-up script.
