variable "environment" {
  description = "The name of the environment."
  type        = string

  validation {
    condition     = contains(["dev", "prod"], var.environment)
    error_message = "environment: expected dev or prod."
  }
}

variable "account_id" {
  description = "The account of the environment."
  type        = string
}

variable "region" {
  description = "The region of all resources."
  type        = string
}

variable "maximum_cpu" {
  description = "The limit of all jobs together, such as `16 vCPU`."
  type        = string
}

variable "maximum_memory" {
  description = "The limit of all jobs together, such as `64 GB`."
  type        = string
}

variable "operator_role_arns" {
  description = "Roles that may start jobs; null: only administrators."
  type        = list(string)
  default     = null
}

variable "emails" {
  description = "Receivers of alarms."
  type        = set(string)
}

variable "alarms" {
  description = "Create alarms on the metrics of runs."
  type        = bool
}

variable "log_retention_days" {
  description = "How many days logs are kept."
  type        = number
}
